"""Treadle: a job queue for Python on PostgreSQL alone."""

from treadle.app import Handle, Job, Treadle, current_job
from treadle.db.migrations import migrate
from treadle.queue import JobQueue
from treadle.why.reason import Reason
from treadle.words import events as events
from treadle.words.backoff import Backoff
from treadle.words.changes import Pause
from treadle.words.control import Cancel, Retry, Snooze
from treadle.words.errors import (
    DatabaseUnreachable,
    EmbeddedFailed,
    EmbeddedMissing,
    InvalidArgument,
    InvalidJob,
    InvalidPayload,
    JobCancelled,
    JobFailed,
    JobInterrupted,
    JobNotFound,
    LeaseLost,
    NotAllowed,
    SchemaError,
    StepsChanged,
    StoredDamaged,
    StoredNotFound,
    StoreMissing,
    TreadleError,
    UndecodableJob,
    UnknownJobType,
    WrongStatus,
)
from treadle.words.job import JobError, JobPage, JobRow
from treadle.words.priority import Priority
from treadle.words.progress import Progress
from treadle.words.record import LogLine, RecordedEvent
from treadle.words.status import Status
from treadle.words.stored import Stored

__all__ = [
    "Backoff",
    "Cancel",
    "DatabaseUnreachable",
    "EmbeddedFailed",
    "EmbeddedMissing",
    "Handle",
    "InvalidArgument",
    "InvalidJob",
    "InvalidPayload",
    "Job",
    "JobCancelled",
    "JobError",
    "JobFailed",
    "JobInterrupted",
    "JobNotFound",
    "JobPage",
    "JobQueue",
    "JobRow",
    "LeaseLost",
    "LogLine",
    "NotAllowed",
    "Pause",
    "Priority",
    "Progress",
    "Reason",
    "RecordedEvent",
    "Retry",
    "SchemaError",
    "Snooze",
    "Status",
    "StepsChanged",
    "StoreMissing",
    "Stored",
    "StoredDamaged",
    "StoredNotFound",
    "Treadle",
    "TreadleError",
    "UndecodableJob",
    "UnknownJobType",
    "WrongStatus",
    "current_job",
    "migrate",
]
