# The public names: for type checkers, and for __init__.py, which reads this file.

from treadle.app.treadle import Treadle as Treadle
from treadle.attempt.job import Job as Job, current_job as current_job
from treadle.db.migrations import migrate as migrate
from treadle.jobs.group import JobGroup as JobGroup
from treadle.jobs.handle import Handle as Handle
from treadle.jobs.job_options import JobDefaults as JobDefaults, JobOptions as JobOptions
from treadle.jobs.middleware import EnqueueCall as EnqueueCall
from treadle.jobs.workflows import (
    Batch as Batch,
    Workflow as Workflow,
    WorkflowHandle as WorkflowHandle,
    chain as chain,
    group as group,
    wait_for_signal as wait_for_signal,
)
from treadle.queue import JobQueue as JobQueue
from treadle.text.masking import Redaction as Redaction
from treadle.why.reason import Reason as Reason
from treadle.words import events as events
from treadle.words.after import if_failed as if_failed, ok_to_fail as ok_to_fail
from treadle.words.changes import Pause as Pause
from treadle.words.connections import Connections as Connections
from treadle.words.control import Cancel as Cancel, RateLimited as RateLimited, Retry as Retry, Snooze as Snooze
from treadle.words.errors import (
    DatabaseUnreachable as DatabaseUnreachable,
    DuplicateJob as DuplicateJob,
    EmbeddedFailed as EmbeddedFailed,
    EmbeddedMissing as EmbeddedMissing,
    InvalidArgument as InvalidArgument,
    InvalidJob as InvalidJob,
    InvalidPayload as InvalidPayload,
    JobCancelled as JobCancelled,
    JobFailed as JobFailed,
    JobInterrupted as JobInterrupted,
    JobLocked as JobLocked,
    JobNotFound as JobNotFound,
    LeaseLost as LeaseLost,
    NotAllowed as NotAllowed,
    NotIncluded as NotIncluded,
    QueueFull as QueueFull,
    SchemaError as SchemaError,
    StepsChanged as StepsChanged,
    StoredDamaged as StoredDamaged,
    StoredNotFound as StoredNotFound,
    StoreMissing as StoreMissing,
    TimedOut as TimedOut,
    TreadleError as TreadleError,
    UndecodableJob as UndecodableJob,
    UnknownJobType as UnknownJobType,
    UnknownLimit as UnknownLimit,
    UnknownSchedule as UnknownSchedule,
    UnknownSignal as UnknownSignal,
    UnknownWorker as UnknownWorker,
    WorkflowEnded as WorkflowEnded,
    WrongStatus as WrongStatus,
)
from treadle.words.fairness import Fairness as Fairness
from treadle.words.job import JobError as JobError, JobPage as JobPage, JobRow as JobRow
from treadle.words.limits import Limit as Limit, MaxPending as MaxPending, Rate as Rate
from treadle.words.priority import Priority as Priority
from treadle.words.record import LogLine as LogLine, RecordedEvent as RecordedEvent
from treadle.words.retries import Backoff as Backoff, Retries as Retries
from treadle.words.snapshot import Progress as Progress
from treadle.words.status import Status as Status
from treadle.words.store import Store as Store
from treadle.words.stored import Stored as Stored
from treadle.words.times import Cron as Cron, Every as Every
from treadle.words.unique import Debounce as Debounce, Once as Once, Throttle as Throttle

__version__: str
