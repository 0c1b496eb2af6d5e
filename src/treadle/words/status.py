"""The six states of a job."""

from enum import StrEnum


class Status(StrEnum):
    PENDING = "pending"
    CLAIMED = "claimed"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def finished(self) -> bool:
        return self in FINISHED


FINISHED = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
