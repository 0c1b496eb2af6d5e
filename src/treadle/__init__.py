"""Treadle: a job queue for Python on PostgreSQL alone."""

from treadle.app import Handle, Job, Treadle, current_job
from treadle.db.migrations import migrate
from treadle.queue import JobQueue
from treadle.words import events as events
from treadle.words.backoff import Backoff
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
from treadle.words.operator import Pause
from treadle.words.priority import Priority
from treadle.words.progress import Progress
from treadle.words.record import LogLine, RecordedEvent
from treadle.words.status import Status
from treadle.words.stored import Stored
from treadle.words.verdicts import Cancel, Retry, Snooze
from treadle.words.why.reason import Reason

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
