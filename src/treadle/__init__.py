"""Treadle: a job queue for Python on PostgreSQL alone."""

import importlib
import typing

if typing.TYPE_CHECKING:
    __version__: str
    from treadle.app import (
        Batch,
        EnqueueCall,
        Handle,
        Job,
        JobGroup,
        Treadle,
        Workflow,
        WorkflowHandle,
        chain,
        current_job,
        group,
        wait_for_signal,
    )
    from treadle.db.migrations import migrate
    from treadle.queue import JobQueue
    from treadle.why.reason import Reason
    from treadle.words import events as events
    from treadle.words.after import if_failed, ok_to_fail
    from treadle.words.backoff import Backoff
    from treadle.words.changes import Pause
    from treadle.words.control import Cancel, RateLimited, Retry, Snooze
    from treadle.words.errors import (
        DatabaseUnreachable,
        DuplicateJob,
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
        NotIncluded,
        QueueFull,
        SchemaError,
        StepsChanged,
        StoredDamaged,
        StoredNotFound,
        StoreMissing,
        TreadleError,
        UndecodableJob,
        UnknownJobType,
        UnknownLimit,
        UnknownSchedule,
        UnknownSignal,
        UnknownWorker,
        WorkflowEnded,
        WrongStatus,
    )
    from treadle.words.job import JobError, JobPage, JobRow
    from treadle.words.limits import Limit, MaxPending, Rate
    from treadle.words.masking import Redaction
    from treadle.words.priority import Priority
    from treadle.words.progress import Progress
    from treadle.words.record import LogLine, RecordedEvent
    from treadle.words.status import Status
    from treadle.words.stored import Stored

__all__ = [
    "Backoff",
    "Batch",
    "Cancel",
    "DatabaseUnreachable",
    "DuplicateJob",
    "EmbeddedFailed",
    "EmbeddedMissing",
    "EnqueueCall",
    "Handle",
    "InvalidArgument",
    "InvalidJob",
    "InvalidPayload",
    "Job",
    "JobCancelled",
    "JobError",
    "JobFailed",
    "JobGroup",
    "JobInterrupted",
    "JobNotFound",
    "JobPage",
    "JobQueue",
    "JobRow",
    "LeaseLost",
    "Limit",
    "LogLine",
    "MaxPending",
    "NotAllowed",
    "NotIncluded",
    "Pause",
    "Priority",
    "Progress",
    "QueueFull",
    "Rate",
    "RateLimited",
    "Reason",
    "RecordedEvent",
    "Redaction",
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
    "UnknownLimit",
    "UnknownSchedule",
    "UnknownSignal",
    "UnknownWorker",
    "Workflow",
    "WorkflowEnded",
    "WorkflowHandle",
    "WrongStatus",
    "chain",
    "current_job",
    "group",
    "if_failed",
    "migrate",
    "ok_to_fail",
    "wait_for_signal",
]

# Where each name is defined, below this package. A module is imported when one of its names is first used, so that
# commands, supervisors and keepers do not load what they do not use. The imports above are for type checkers alone.
_HOMES = {
    "app": [
        "Batch",
        "EnqueueCall",
        "Handle",
        "Job",
        "JobGroup",
        "Treadle",
        "Workflow",
        "WorkflowHandle",
        "chain",
        "current_job",
        "group",
        "wait_for_signal",
    ],
    "db.migrations": ["migrate"],
    "queue": ["JobQueue"],
    "words": ["events"],
    "words.after": ["if_failed", "ok_to_fail"],
    "words.backoff": ["Backoff"],
    "words.errors": [
        "DatabaseUnreachable",
        "DuplicateJob",
        "EmbeddedFailed",
        "EmbeddedMissing",
        "InvalidArgument",
        "InvalidJob",
        "InvalidPayload",
        "JobCancelled",
        "JobFailed",
        "JobInterrupted",
        "JobNotFound",
        "LeaseLost",
        "NotAllowed",
        "NotIncluded",
        "QueueFull",
        "SchemaError",
        "StepsChanged",
        "StoreMissing",
        "StoredDamaged",
        "StoredNotFound",
        "TreadleError",
        "UndecodableJob",
        "UnknownJobType",
        "UnknownLimit",
        "UnknownSchedule",
        "UnknownSignal",
        "UnknownWorker",
        "WorkflowEnded",
        "WrongStatus",
    ],
    "words.job": ["JobError", "JobPage", "JobRow"],
    "words.changes": ["Pause"],
    "words.limits": ["Limit", "MaxPending", "Rate"],
    "words.masking": ["Redaction"],
    "words.priority": ["Priority"],
    "words.progress": ["Progress"],
    "words.record": ["LogLine", "RecordedEvent"],
    "words.status": ["Status"],
    "words.stored": ["Stored"],
    "words.control": ["Cancel", "RateLimited", "Retry", "Snooze"],
    "why.reason": ["Reason"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

if not typing.TYPE_CHECKING:  # type checkers would take it that every name exists

    def __getattr__(name: str) -> object:
        if name == "__version__":
            return importlib.import_module("importlib.metadata").version("treadle")
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "events":
            return importlib.import_module("treadle.words.events")
        found = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = found  # so that this is called once for each
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
