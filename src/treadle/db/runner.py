"""Runs a Query on a connection: one sync and one async implementation, and no other.

Nothing is committed or rolled back here. On an autocommit connection each statement is its own transaction; on any
other connection the query joins the transaction that the caller has open.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor, DataError
from psycopg.abc import Buffer
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.types.datetime import TimestamptzLoader

from treadle.db.own_connection import OwnAsyncConnection, OwnConnection
from treadle.db.query import Query, Result
from treadle.db.search_path import PINNED_LOCALLY

# The range of years that Python's datetime supports, with room for time zones.
EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
LATEST = datetime(9999, 12, 30, tzinfo=UTC)

PREPARED_AFTER = 5  # executions
_SERVER_PROCESS: Query[int] = Query("select pg_catalog.pg_backend_pid()", {}, lambda rows: rows[0][0])


class Clamped(TimestamptzLoader):
    """PostgreSQL has times that Python cannot represent, such as infinity. A job with one must not break a list."""

    def load(self, data: Buffer) -> datetime:
        try:
            return super().load(data)
        except DataError:
            text = bytes(data)
            return EARLIEST if text.startswith(b"-") or text.endswith(b"BC") else LATEST


@contextmanager
def reading(connection: Connection[Any], seconds: float, one_snapshot: bool) -> Iterator[None]:
    """A transaction with these settings; `one_snapshot`: all of its statements see the same state. It is rolled back,
    so that the settings do not outlive it in a caller's transaction, which keeps its own snapshots."""
    settings = read_settings(seconds, one_snapshot and _is_idle(connection))
    with connection.transaction(force_rollback=True):
        connection.execute(settings)
        yield


@asynccontextmanager
async def areading(connection: AsyncConnection[Any], seconds: float, one_snapshot: bool) -> AsyncIterator[None]:
    settings = read_settings(seconds, one_snapshot and _is_idle(connection))
    async with connection.transaction(force_rollback=True):
        await connection.execute(settings)
        yield


def _is_idle(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    return connection.info.transaction_status == TransactionStatus.IDLE


def read_settings(seconds: float, one_snapshot: bool = False) -> bytes:
    """The settings of a read: read-only, with a time limit and a pinned search path. Sequential scans are off, so that
    a generic or outdated estimate never reads a whole table; JIT is off, which would compile for 500 ms what runs for
    2 ms."""
    level = "isolation level repeatable read, " if one_snapshot else ""
    return f"""\
set transaction {level}read only;
{PINNED_LOCALLY};
set local statement_timeout = {round(seconds * 1000)};
set local enable_seqscan = off;
set local jit = off""".encode()


def peek(connection: Connection[Any], query: Query[Result], schema: str) -> Result:
    """Like run(), for display: a time outside the range of Python becomes the earliest or the latest time in it."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.adapters.register_loader("timestamptz", Clamped)
        cursor.execute(query.bound(schema), query.params)
        return query.read(cursor.fetchall() if _has_rows(cursor) else ())


async def apeek(connection: AsyncConnection[Any], query: Query[Result], schema: str) -> Result:
    async with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.adapters.register_loader("timestamptz", Clamped)
        await cursor.execute(query.bound(schema), query.params)
        return query.read(await cursor.fetchall() if _has_rows(cursor) else ())


def run(connection: Connection[Any], query: Query[Result], schema: str) -> Result:
    if query.often and isinstance(connection, OwnConnection) and not connection.checked:
        _allow_preparing(connection, run(connection, _SERVER_PROCESS, schema))
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(query.bound(schema), query.params, prepare=_may_be_prepared(query))
        return query.read(cursor.fetchall() if _has_rows(cursor) else ())


async def arun(connection: AsyncConnection[Any], query: Query[Result], schema: str) -> Result:
    if query.often and isinstance(connection, OwnAsyncConnection) and not connection.checked:
        _allow_preparing(connection, await arun(connection, _SERVER_PROCESS, schema))
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(query.bound(schema), query.params, prepare=_may_be_prepared(query))
        return query.read(await cursor.fetchall() if _has_rows(cursor) else ())


def needs_transaction(connection: Connection[Any] | AsyncConnection[Any], queries: Sequence[Query[Any]]) -> bool:
    several = len(queries) > 1 or any(query.pinned for query in queries)
    return several and connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE


def _allow_preparing(connection: OwnConnection | OwnAsyncConnection, process: int) -> None:
    """Unless there is a pooler in between."""
    connection.checked = True
    connection.prepare_threshold = PREPARED_AFTER if process == connection.info.backend_pid else None


def _may_be_prepared(query: Query[Any]) -> bool | None:
    # All others are planned for their values: a search with other filters needs another plan.
    return None if query.often else False


def _has_rows(cursor: Cursor[Any] | AsyncCursor[Any]) -> bool:
    # cursor.description says the same, but building it takes 5 % of the time of an enqueue.
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0
