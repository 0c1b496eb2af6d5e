"""The facts about a job or a schedule that determine why it does not run."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from treadle.words.changes import Pause
from treadle.words.job import Origin
from treadle.words.limit_status import LimitKind
from treadle.words.refusal import Refusal
from treadle.words.status import Status
from treadle.words.stuck import StoppedChild, Stuck

# Jobs ahead are counted up to this; one more stands for "more than that".
COUNT_LIMIT = 1000


class JobWorker(NamedTuple):
    """The worker that claimed the job, from its row in treadle.workers."""

    lease: float | None
    """Seconds that it may go without renewing; None: a client that claims without a worker process."""
    lost_at: datetime | None
    """When it was declared lost."""
    is_registered: bool = False
    """It has a row: it registered, or has sent a heartbeat."""
    host: str | None = None
    pid: int | None = None
    stuck: Stuck | None = None
    stopped_children: Sequence[StoppedChild] = ()


class Failure(NamedTuple):
    """The last attempt that failed."""

    attempt: int
    at: datetime
    error: str
    newest: bool
    """The job has not been claimed since."""


class RowLock(NamedTuple):
    """An open transaction that has locked the job's row."""

    pid: int
    application: str | None
    since: datetime | None
    """None: this role may not see it."""


class LiveWorker(NamedTuple):
    worker_id: str
    is_client: bool
    """It claims without a worker process, through the SQL functions or JobQueue."""
    job_types: list[str] | None
    """None: not reported, or not needed because another worker serves the job."""
    queues: list[str] | None
    """None: all, or not reported."""
    serves: bool
    """It would claim this job."""
    slots: int | None
    """How many jobs it can run at once of those that compete with this one; None: not reported, or it does not serve
    the job."""
    busy: int | None
    """How many of these slots are taken."""
    seen_at: datetime
    stuck: Stuck | None = None
    """Its event loop does not run."""
    host: str | None = None
    pid: int | None = None

    @property
    def may_claim(self) -> bool:
        """It would claim this job when it has a free slot."""
        return self.serves and self.slots != 0 and self.stuck is None


class Ahead(NamedTuple):
    """How many jobs the workers that serve this one would claim before it."""

    in_lane: int = 0
    same_priority: int = 0
    """In other lanes."""
    higher_priority: int = 0

    @property
    def total(self) -> int:
        """COUNT_LIMIT + 1 stands for more than COUNT_LIMIT."""
        return min(sum(self), COUNT_LIMIT + 1)


class LimitUse(NamedTuple):
    """A limit of the job, and how much of it is in use."""

    name: str
    kind: LimitKind
    per: str | None
    key: str
    amount: int | None
    """None: not limited; 0: paused."""
    seconds: float | None
    """The period of a rate."""
    burst: int | None
    weight: int
    """Of the job."""
    in_use: int | None
    """The weight of the jobs that run; None: it is a rate."""
    running: int | None
    """How many they are."""
    available: int | None
    """How many may start now; None: it is no rate."""
    opens_at: datetime | None
    """When this job may start, if that is known."""
    frees_at: datetime | None
    """When the first of those that run should finish, estimated."""
    in_code: bool
    for_key: bool
    """The amount was set for this key only."""
    changed_by: str | None
    changed_at: datetime | None


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
    blocked: bool
    """It waits for an earlier job with its key."""
    run_at: datetime
    worker_id: str | None
    claimed_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    seen_at: datetime | None
    """The last heartbeat or progress of its worker, if there was any."""
    progress: int | None
    stage: str | None
    error: str | None
    """The beginning of last_error."""
    worker: JobWorker = JobWorker(None, None)
    running_beside: int = 0
    """How many other jobs its worker runs."""
    failure: Failure | None = None
    cancelled_by: str | None = None
    """From the audit."""
    cancel_reason: str | None = None
    pauses: Sequence[Pause] = ()
    """Those that apply to it, the widest first."""
    blocker: UUID | None = None
    """The job with its key that has to finish first."""
    earlier: int = 0
    """How many jobs with its key run before it."""
    row_lock: RowLock | None = None
    workers: Sequence[LiveWorker] = ()
    """The live ones, those that serve it first."""
    last_worker: tuple[str, datetime] | None = None
    """If there is no live worker: the one that was seen last, and when."""
    ahead: Ahead = Ahead()
    finished_attempts: int | None = None
    """How many attempts finished recently on the workers that serve it, from the counts by the minute."""
    finished_within: float | None = None
    """In how many seconds."""
    tick_age: float | None = None
    """Seconds since the last tick, which workers make when they claim; None: there has been none."""
    null_columns: Sequence[str] = ()
    """Which of attempts and max_attempts are null. Here they are 0 then."""
    schema: str = "treadle"
    """As an SQL identifier."""
    origin: Origin | None = None
    """The schedule that enqueued it."""
    limits: Sequence[LimitUse] = ()
    waits: bool = False
    """It waits for other jobs."""
    waited_for: UUID | None = None
    """One of those that have not ended."""
    others_waited_for: int = 0
    """How many others there are."""
    is_open: bool = False
    """It is a batch that is not closed."""
    waits_for_signal: bool = False
    is_workflow: bool = False
    """Or it has replaced itself by other jobs."""
    refusal: Refusal | None = None
    """Why the server refuses what workers write."""


class ScheduleFacts(NamedTuple):
    """One schedule at one moment, by the database's clock."""

    at: datetime
    name: str
    job_type: str
    queue: str
    overlap: str
    in_code: bool
    """Declared in code; only workers whose code declares it enqueue its jobs."""
    declared_at: datetime | None
    retired_at: datetime | None
    paused_at: datetime | None
    starts_at: datetime | None
    next_at: datetime | None
    """None: there is none, or no worker has computed it yet."""
    ended: bool = False
    """It has no further times."""
    last_at: datetime | None = None
    last_job: UUID | None = None
    last_status: Status | None = None
    """Of its last job; None: there was none, or it no longer exists."""
    error: str | None = None
    retry_at: datetime | None = None
    skipped: int = 0
    """How many times were left out since the last job was enqueued, because it has not finished."""
    paused_by: str | None = None
    """From the audit."""
    pause_reason: str | None = None
    pauses: Sequence[Pause] = ()
    """Those that apply to its jobs, the widest first."""
    workers: Sequence[LiveWorker] = ()
    """The live ones, those that serve its jobs first."""
    last_worker: tuple[str, datetime] | None = None
    """If there is no live worker: the one that was seen last, and when."""
    refusal: Refusal | None = None
