"""Treadle: a job queue for Python on PostgreSQL alone."""

from treadle.db.migrations import migrate
from treadle.queue import JobQueue
from treadle.words.errors import (
    DatabaseUnreachable,
    EmbeddedFailed,
    EmbeddedMissing,
    InvalidArgument,
    InvalidPayload,
    JobNotFound,
    LeaseLost,
    SchemaError,
    TreadleError,
    UndecodableJob,
    WrongStatus,
)
from treadle.words.job import JobPage, JobRow
from treadle.words.priority import Priority
from treadle.words.status import Status

__all__ = [
    "DatabaseUnreachable",
    "EmbeddedFailed",
    "EmbeddedMissing",
    "InvalidArgument",
    "InvalidPayload",
    "JobNotFound",
    "JobPage",
    "JobQueue",
    "JobRow",
    "LeaseLost",
    "Priority",
    "SchemaError",
    "Status",
    "TreadleError",
    "UndecodableJob",
    "WrongStatus",
    "migrate",
]
