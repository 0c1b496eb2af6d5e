"""The state of jobs at one moment, for display."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from treadle.words.record import RecordedEvent
from treadle.words.status import Status

STAGE_LIMIT = 100


class Progress(NamedTuple):
    percent: int
    stage: str | None
    done: int | None = None
    """How many items were counted by job.track, and of how many."""
    total: int | None = None
    rate: float | None = None
    """Items per second."""
    left: float | None = None
    """Seconds until all items are done, at this rate."""


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
