"""Treadle: a job queue for Python on PostgreSQL alone."""

import importlib
import typing

if typing.TYPE_CHECKING:  # the same names for type checkers
    __version__: str
    from treadle.app.treadle import Treadle as Treadle
    from treadle.attempt.job import Job as Job, current_job as current_job
    from treadle.db.migrations import migrate as migrate
    from treadle.jobs.group import JobGroup as JobGroup
    from treadle.jobs.handle import Handle as Handle
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
    from treadle.why.reason import Reason as Reason
    from treadle.words import events as events
    from treadle.words.after import if_failed as if_failed, ok_to_fail as ok_to_fail
    from treadle.words.backoff import Backoff as Backoff
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
    from treadle.words.masking import Redaction as Redaction
    from treadle.words.priority import Priority as Priority
    from treadle.words.progress import Progress as Progress
    from treadle.words.record import LogLine as LogLine, RecordedEvent as RecordedEvent
    from treadle.words.retries import Retries as Retries
    from treadle.words.status import Status as Status
    from treadle.words.store import Store as Store
    from treadle.words.stored import Stored as Stored
    from treadle.words.times import Cron as Cron, Every as Every
    from treadle.words.unique import Debounce as Debounce, Once as Once, Throttle as Throttle

# Where each name is defined, below this package. A module is imported when one of its names is first used, so that
# commands, supervisors and keepers do not load what they do not use.
_HOMES = {
    "app.treadle": "Treadle",
    "attempt.job": "Job current_job",
    "jobs.group": "JobGroup",
    "jobs.handle": "Handle",
    "jobs.middleware": "EnqueueCall",
    "jobs.workflows": "Batch Workflow WorkflowHandle chain group wait_for_signal",
    "db.migrations": "migrate",
    "queue": "JobQueue",
    "why.reason": "Reason",
    "words": "events",
    "words.after": "if_failed ok_to_fail",
    "words.backoff": "Backoff",
    "words.changes": "Pause",
    "words.connections": "Connections",
    "words.control": "Cancel RateLimited Retry Snooze",
    "words.errors": (
        "DatabaseUnreachable DuplicateJob EmbeddedFailed EmbeddedMissing InvalidArgument InvalidJob InvalidPayload "
        "JobCancelled JobFailed JobInterrupted JobNotFound LeaseLost NotAllowed NotIncluded QueueFull SchemaError "
        "StepsChanged StoreMissing StoredDamaged StoredNotFound TreadleError UndecodableJob UnknownJobType "
        "UnknownLimit UnknownSchedule UnknownSignal UnknownWorker WorkflowEnded WrongStatus"
    ),
    "words.fairness": "Fairness",
    "words.job": "JobError JobPage JobRow",
    "words.limits": "Limit MaxPending Rate",
    "words.masking": "Redaction",
    "words.priority": "Priority",
    "words.progress": "Progress",
    "words.record": "LogLine RecordedEvent",
    "words.retries": "Retries",
    "words.status": "Status",
    "words.store": "Store",
    "words.stored": "Stored",
    "words.times": "Cron Every",
    "words.unique": "Debounce Once Throttle",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

if not typing.TYPE_CHECKING:  # type checkers would take it that every name exists
    __all__ = sorted(_HOME.keys() - {"events"})  # a module

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
