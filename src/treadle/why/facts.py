"""What is known about a job that somebody asks about: why it does not run follows from it (see why.py)."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from treadle.words.changes import Pause
from treadle.words.status import Status

# Counts go no further than one past this.
COUNTED = 1000


class Holder(NamedTuple):
    """Who claimed it, as far as its row in the table of workers says."""

    lease: float | None
    """Seconds that it may be silent; None: a client by hand, which promises nothing."""
    lost_at: datetime | None
    """When it was given up."""


class Failure(NamedTuple):
    """The last attempt that failed."""

    attempt: int
    at: datetime
    error: str
    newest: bool
    """Nobody has claimed the job since."""


class Locker(NamedTuple):
    """An open transaction that holds the job's row."""

    pid: int
    application: str | None
    since: datetime | None
    """None: this role may not see it."""


class LiveWorker(NamedTuple):
    worker_id: str
    by_hand: bool
    job_types: list[str] | None
    """None: it has not said, or it does not matter because another serves the job."""
    queues: list[str] | None
    """None: all, or it has not said."""
    serves: bool
    """It would claim this job."""
    places: int | None
    """How many jobs it runs at once that share a place with this one; None: it does not serve, or has not said."""
    busy: int | None
    """How many of them are taken."""
    seen_at: datetime


class Ahead(NamedTuple):
    """Jobs that the workers that serve this one would take before it."""

    own: int = 0
    """In its own lane."""
    level: int = 0
    """In other lanes of its priority."""
    above: int = 0
    """In lanes of higher priority."""

    @property
    def total(self) -> int:
        """One more than COUNTED stands for more than that."""
        return min(sum(self), COUNTED + 1)


class Facts(NamedTuple):
    """One job at one moment, by the database's clock."""

    at: datetime
    id: UUID
    job_type: str
    queue: str
    priority: int
    status: Status
    attempts: int
    max_attempts: int
    lease: int
    key: str | None
    held: bool
    """It waits until an earlier job with its key lets it go."""
    run_at: datetime
    worker_id: str | None
    claimed_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    sign: datetime | None
    """The last sign of life of its holder, if it gave any."""
    progress: int | None
    stage: str | None
    error: str | None
    """The beginning of last_error."""
    holder: Holder = Holder(None, None)
    beside: int = 0
    """How many other jobs its holder runs."""
    failure: Failure | None = None
    cancelled_by: str | None = None
    """As the audit says."""
    cancelled_why: str | None = None
    pauses: Sequence[Pause] = ()
    """Those that concern it, the widest first."""
    blocker: UUID | None = None
    """The job with its key that has to end first."""
    earlier: int = 0
    """How many jobs with its key go before it."""
    locker: Locker | None = None
    workers: Sequence[LiveWorker] = ()
    """Those that live; the ones that serve it first."""
    gone: tuple[str, datetime] | None = None
    """If none with a lease lives: the one that was seen last, and when."""
    ahead: Ahead = Ahead()
    ended: int | None = None
    """How many attempts ended lately on the workers that serve it, by the counted minutes."""
    ended_in: float | None = None
    """In so many seconds."""
    tick_age: float | None = None
    """Seconds since somebody looked after the lanes, as whoever claims does; None: nobody ever did."""
