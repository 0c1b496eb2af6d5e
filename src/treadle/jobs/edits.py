"""Changes of the arguments of a job that exists: checked as those of a new one, if the application has its function."""

from typing import Any, NamedTuple
from uuid import UUID

from treadle.db.queries import operations as operation_queries
from treadle.db.queries import stored as stored_queries
from treadle.db.query import Query
from treadle.jobs.backend import Backend
from treadle.jobs.outputs import outputs_of
from treadle.words.errors import InvalidArgument
from treadle.words.job import JobRow
from treadle.words.payload import encode
from treadle.words.stored import Noted


class Author(NamedTuple):
    """Who makes a change and why, for the audit; and what the change is a part of."""

    actor: str | None = None
    reason: str | None = None
    act: UUID | None = None


UNKNOWN = Author()


def edit(
    backend: Backend, job: JobRow, given: dict[str, Any], author: Author = UNKNOWN, *, retry: bool = False
) -> list[Query[Any]]:
    """The last query returns whether something was changed."""
    text, stored = _checked(backend, job, given)
    return _with_lock(operation_queries.edit_job(job.id, text, stored, retry=retry, **author._asdict()), stored)


def copy(backend: Backend, job: JobRow, given: dict[str, Any], author: Author = UNKNOWN) -> list[Query[Any]]:
    """The last query returns the id of the copy."""
    text, stored = _checked(backend, job, given)
    return _with_lock(operation_queries.copy_job(job.id, text, stored, **author._asdict()), stored)


def _checked(backend: Backend, job: JobRow, given: dict[str, Any]) -> tuple[str, list[UUID]]:
    later = next((name for name, value in given.items() if outputs_of(value)), None)
    if later is not None:
        raise InvalidArgument(f"{later} is the result of another job: enqueue a new job, which waits for it")
    arguments = backend.arguments_of(job.job_type)
    with Noted() as used:
        if arguments is None:
            text = encode(given, backend.payload_limit)
        else:
            text = arguments.encode_some(given, backend.payload_limit).text
    return text, used


def _with_lock(change: Query[Any], stored: list[UUID]) -> list[Query[Any]]:
    """With a check that what it uses of app.store exists."""
    return [stored_queries.lock(stored), change] if stored else [change]
