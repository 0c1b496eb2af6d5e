"""The state of jobs at one moment, for display."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from treadle.words.progress import Progress
from treadle.words.record import RecordedEvent
from treadle.words.status import Status


class JobSnapshot(NamedTuple):
    """One job at one moment."""

    id: UUID
    job_type: str
    status: Status
    progress: Progress
    attempts: int
    max_attempts: int
    error: str | None
    """Its first characters."""
    may_be_blocked: bool
    """It is blocked, or has a key and may be blocked."""
    events_count: int
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    at: datetime
    """The moment, by the database's clock."""
    worker_id: str | None = None
    queue: str = "default"
    priority: int = 100

    @property
    def seconds(self) -> float | None:
        """How long its last attempt took, or has taken so far."""
        if self.started_at is None:
            return None
        return max(0.0, ((self.finished_at or self.at) - self.started_at).total_seconds())


class Snapshot(NamedTuple):
    """Several jobs at one moment."""

    jobs: list[JobSnapshot]
    events: list[RecordedEvent]
    """The events since the previous snapshot: the newest of each job, oldest first."""
