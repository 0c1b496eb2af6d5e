"""Errors of a driver as errors of Treadle, which say what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg_pool import PoolTimeout

from treadle.db.migrations import no_schema, not_allowed
from treadle.db.own_connection import NoAnswer
from treadle.db.pools import PoolBusy
from treadle.db.url import described
from treadle.words.errors import DatabaseUnreachable, SchemaError, TableLocked, TooSlow, TreadleError

# Those that explain() knows.
EXPLAINED = (
    NoAnswer,
    PoolTimeout,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedFunction,
)

_WRONG_SCHEMA = {
    each.sqlstate
    for each in (
        psycopg.errors.InvalidSchemaName,
        psycopg.errors.UndefinedTable,
        psycopg.errors.UndefinedFunction,
    )
}


def explain(error: Exception, schema: str, url: str | None) -> TreadleError:
    """What one of the errors in EXPLAINED means, for a queue in this schema."""
    where = described(url) if url else "the database"
    if isinstance(error, PoolTimeout):
        busy = isinstance(error, PoolBusy)
        summary = "all connections to the database are in use" if busy else "no connection to the database"
        return DatabaseUnreachable(f"no connection to {where}: {error}", summary)
    if isinstance(error, NoAnswer):
        return DatabaseUnreachable(
            f"PostgreSQL at {where} does not answer: {error}; whether the statement was carried out is unknown",
            f"the database does not answer: {error}",
        )
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return not_allowed(error.diag.message_primary, schema)
    return _wrong_schema(schema, isinstance(error, psycopg.errors.InvalidSchemaName))


@contextmanager
def explained_to_callers(schema: str) -> Iterator[None]:
    """The same for the errors of other libraries, on a caller's connection."""
    try:
        yield
    except TreadleError:
        raise
    except Exception as error:
        state, message = _state(error)
        if state == psycopg.errors.InsufficientPrivilege.sqlstate:
            raise not_allowed(message, schema) from error
        if state in _WRONG_SCHEMA:
            raise _wrong_schema(schema, state == psycopg.errors.InvalidSchemaName.sqlstate) from error
        raise


def _state(error: BaseException) -> tuple[str | None, str]:
    """The SQLSTATE and the message of the driver. SQLAlchemy and Django wrap its error in their own."""
    each: BaseException | None = error
    while each is not None:
        state = getattr(each, "sqlstate", None) or getattr(each, "pgcode", None)
        if state is not None:
            return str(state), str(each).partition("\n")[0]
        each = getattr(each, "orig", None) or each.__cause__
    return None, ""


def _wrong_schema(schema: str, is_missing: bool) -> SchemaError:
    if is_missing:
        return no_schema(schema)
    return SchemaError(f"schema {schema} does not fit this version of Treadle; run: treadle migrate")


@contextmanager
def in_time() -> Iterator[None]:
    """For reads with a limited time."""
    try:
        yield
    except psycopg.errors.LockNotAvailable as error:
        raise TableLocked(
            "another session has locked a table in the database; to find out which, run: treadle doctor"
        ) from error
    except psycopg.errors.QueryCanceled as error:
        raise TooSlow("the database took too long to respond; to find out why, run: treadle doctor") from error


@contextmanager
def locked_in_time(explained: bool) -> Iterator[None]:
    """For changes with a limited time to wait for locks. Of an application's own limit, it gets the driver's error."""
    try:
        yield
    except psycopg.errors.LockNotAvailable as error:
        if not explained:
            raise
        raise TooSlow(
            "nothing was changed, because another session holds a lock; to find out which, run: treadle doctor"
        ) from error
