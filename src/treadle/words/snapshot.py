"""How jobs look to whoever watches them."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from treadle.words.progress import Progress
from treadle.words.record import RecordedEvent
from treadle.words.status import Status


class JobSnapshot(NamedTuple):
    """As much of a job as is drawn."""

    id: UUID
    job_type: str
    status: Status
    progress: Progress
    attempts: int
    max_attempts: int
    error: str | None
    """The beginning of it."""
    held: bool
    """Others go before it, or may: it has a key."""
    events_count: int
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    at: datetime
    """When it was seen, by the database's clock."""
    worker_id: str | None = None
    queue: str = "default"
    priority: int = 100

    @property
    def seconds(self) -> float | None:
        """How long its last attempt took, or has taken by now."""
        if self.started_at is None:
            return None
        return max(0.0, ((self.finished_at or self.at) - self.started_at).total_seconds())


class Snapshot(NamedTuple):
    """Several jobs at one moment."""

    jobs: list[JobSnapshot]
    events: list[RecordedEvent]
    """What they have told since the sight before: the newest of each, oldest first."""
