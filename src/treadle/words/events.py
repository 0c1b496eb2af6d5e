"""What happens in a worker, as values. Listeners and the log receive them."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from treadle.words.job import Claim


@dataclass(frozen=True, slots=True)
class Event:
    """The base of all events."""


@dataclass(frozen=True, slots=True)
class JobEvent(Event):
    job_id: UUID
    job_type: str
    worker_id: str
    attempt: int
    data: str | None = field(default=None, repr=False)
    """The payload as JSON text. The log leaves it out."""
    lease: int = 0
    """The lease number of the claim; in a handler, `job.fence`."""


AboutJob = TypeVar("AboutJob", bound=JobEvent)


def about(claim: Claim, worker_id: str, kind: type[AboutJob], **more: Any) -> AboutJob:
    """An event of this kind about a claimed job."""
    return kind(claim.id, claim.job_type, worker_id, claim.attempts, claim.data, claim.lease, **more)


@dataclass(frozen=True, slots=True)
class JobClaimed(JobEvent):
    """This worker has claimed it and starts it as soon as there is room."""


@dataclass(frozen=True, slots=True)
class JobStarted(JobEvent):
    """Its handler is about to be called."""


@dataclass(frozen=True, slots=True)
class JobCompleted(JobEvent):
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class JobReplaced(JobEvent):
    """Its handler has ended and has handed its result over to other jobs."""

    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class JobFailed(JobEvent):
    """It is not retried."""

    error: str = ""
    seconds: float = 0.0
    traceback: str | None = field(default=None, repr=False)
    exception: BaseException | None = field(default=None, repr=False, compare=False)
    """What the handler raised, if it ran in this process, and not in a child process."""
    on_purpose: bool = False
    """The handler raised Retry."""


@dataclass(frozen=True, slots=True)
class JobRetried(JobEvent):
    """The attempt failed; the job is retried."""

    error: str = ""
    delay: float | None = None
    seconds: float = 0.0
    traceback: str | None = field(default=None, repr=False)
    exception: BaseException | None = field(default=None, repr=False, compare=False)
    """What the handler raised, if it ran in this process, and not in a child process."""
    on_purpose: bool = False
    """The handler raised Retry."""


@dataclass(frozen=True, slots=True)
class JobCancelled(JobEvent):
    """Cancelled by its handler. (A job that is cancelled from outside loses its claim: LeaseWasLost.)"""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class JobReleased(JobEvent):
    """Returned to the queue without using an attempt: snoozed, or the worker stops."""

    delay: float | None = None


@dataclass(frozen=True, slots=True)
class JobRecovered(Event):
    """Taken back from a dead worker. `status` is its new status: pending or failed."""

    job_id: UUID
    job_type: str
    worker_id: str
    status: str


@dataclass(frozen=True, slots=True)
class LeaseWasLost(JobEvent):
    """The job was cancelled, recovered or finished elsewhere; the outcome of this attempt is not written."""


@dataclass(frozen=True, slots=True)
class WorkerStarted(Event):
    worker_id: str
    job_types: tuple[str, ...]
    concurrency: int


@dataclass(frozen=True, slots=True)
class ConcurrencyChanged(Event):
    """An operator has changed how many jobs the worker runs at once."""

    worker_id: str
    concurrency: int
    before: int


@dataclass(frozen=True, slots=True)
class WorkerStopped(Event):
    worker_id: str


@dataclass(frozen=True, slots=True)
class WorkerFenced(Event):
    """It could not renew its lease, and stopped its handlers before other workers take its jobs."""

    worker_id: str


@dataclass(frozen=True, slots=True)
class UnknownTypesFound(Event):
    """Jobs of these types are due, but this application does not know them, and no worker serves them. Perhaps a module
    is not imported, or a function was renamed without `aliases`."""

    worker_id: str
    job_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DatabaseLost(Event):
    """Statements fail; they are retried until they succeed."""

    worker_id: str
    error: str


@dataclass(frozen=True, slots=True)
class DatabaseBack(Event):
    worker_id: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ClockJumped(Event):
    """The clock of the database server was set forward or back."""

    worker_id: str
    seconds: float
    """Negative: back."""
    before: datetime
    """What it would have shown without the jump."""
    after: datetime
