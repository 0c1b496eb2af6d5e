"""Errors of a driver as errors of Treadle, which say what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg_pool import PoolTimeout

from treadle.db.migrations import not_allowed
from treadle.db.own_connection import NoAnswer
from treadle.db.url import described
from treadle.words.errors import DatabaseUnreachable, SchemaError, TooSlow, TreadleError

# Those that explain() knows.
EXPLAINED = (
    NoAnswer,
    PoolTimeout,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedFunction,
)


def explain(error: Exception, schema: str, url: str | None) -> TreadleError:
    """What one of the errors in EXPLAINED means, for a queue in this schema."""
    where = described(url) if url else "the database"
    if isinstance(error, PoolTimeout):
        return DatabaseUnreachable(f"no connection to {where}: {error}")
    if isinstance(error, NoAnswer):
        return DatabaseUnreachable(
            f"PostgreSQL at {where} does not answer: {error}; whether the statement was carried out is unknown"
        )
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return not_allowed(error.diag.message_primary, schema)
    return SchemaError(f"schema {schema} does not fit this version of Treadle; run: treadle migrate")


@contextmanager
def in_time() -> Iterator[None]:
    try:
        yield
    except psycopg.errors.QueryCanceled as error:
        raise TooSlow("the database took too long to respond; to find out why, run: treadle doctor") from error
