"""What is known about the attempts of each type, and about jobs that claims do not find."""

from datetime import datetime
from typing import NamedTuple


class HiddenJob(NamedTuple):
    """The first due job of a lane that lies where no claim looks."""

    queue: str
    job_type: str
    priority: int
    partition: str
    due: float
    floor: datetime | None
    """Claims of the lane begin here. None: the lane is not searched at all."""
    id: str


class UntriggeredJob(NamedTuple):
    """A job that lacks what a trigger would have set."""

    kind: str
    """finished: it has ended without finished_at; key, dependency: nothing is left that would unblock it;
    workflow: its counts are not those of its jobs."""
    id: str
    job_type: str
    detail: str | None
    """Its key, or the counts of the workflow."""


class FailureRate(NamedTuple):
    """Attempts of a job type: in the last minutes, and in the time before."""

    job_type: str
    completed: int
    errors: int
    """Failed attempts, including those that are retried."""
    failed: int
    """Jobs that have no attempt left."""
    past_completed: int
    past_errors: int

    @property
    def attempts(self) -> int:
        return self.completed + self.errors

    @property
    def share(self) -> float:
        """The share of attempts that failed lately."""
        return self.errors / self.attempts if self.attempts else 0.0

    @property
    def past_attempts(self) -> int:
        return self.past_completed + self.past_errors

    @property
    def past_share(self) -> float:
        return self.past_errors / self.past_attempts if self.past_attempts else 0.0
