"""What may explain a change in a chart: pauses, deployments and starts of workers."""

from datetime import datetime
from typing import NamedTuple


class Mark(NamedTuple):
    at: datetime
    kind: str
    """pause, resume, deploy or start."""
    job_type: str | None
    """Of a pause: only this type. None: all."""
    queue: str | None
    by: str
    """Who paused or resumed; of a deployment, the version of the application; of a start, that of Treadle."""
    workers: int | None
    """How many started within the minute."""

    @property
    def text(self) -> str:
        if self.kind == "deploy":
            return f"Deployed {self.by}"
        if self.kind == "start":
            return f"{self.workers} {'worker' if self.workers == 1 else 'workers'} started"
        what = self.job_type or ("All jobs" if self.queue is None else "All types")
        where = f" in queue {self.queue}" if self.queue else ""
        by = f" by {self.by}" if self.by else ""
        return f"{what}{where} {'paused' if self.kind == 'pause' else 'resumed'}{by}"

    def concerns(self, job_type: str | None, queue: str | None) -> bool:
        """Whether it concerns jobs of this type, or in this queue; None: any."""
        is_type = self.job_type is None or job_type is None or self.job_type == job_type
        return is_type and (self.queue is None or queue is None or self.queue == queue)
