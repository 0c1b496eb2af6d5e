"""Runs a Query on a connection: once for sync, once for async, and nowhere else.

Nothing is committed or rolled back here: on an autocommit connection each statement is its own transaction, on any
other the query is part of whatever transaction the caller has open.
"""

from datetime import UTC, datetime
from typing import Any

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor, DataError
from psycopg.abc import Buffer
from psycopg.rows import tuple_row
from psycopg.types.datetime import TimestamptzLoader

from treadle.db.query import Query, Result

# The years that Python knows, with room for time zones.
EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
LATEST = datetime(9999, 12, 30, tzinfo=UTC)

PREPARED_AFTER = 5  # times
_SERVER_PROCESS: Query[int] = Query("select pg_backend_pid()", {}, lambda rows: rows[0][0])


class Clamped(TimestamptzLoader):
    """PostgreSQL knows times that Python does not, infinity among them; one such job must not hide all others."""

    def load(self, data: Buffer) -> datetime:
        try:
            return super().load(data)
        except DataError:
            text = bytes(data)
            return EARLIEST if text.startswith(b"-") or text.endswith(b"BC") else LATEST


class OwnConnection(Connection[Any]):
    """One that we opened. A statement that is parsed once takes a third less time to claim with, a tenth less to
    enqueue; but a pooler may run the next one in another session, which does not know it. It is found by the process
    that it claims to be: with the first statement that would gain, and by who runs that. (A pool that asked it of each
    new connection would wait for ever for one that has fallen silent, and with it everybody.)"""

    known = False


class OwnAsyncConnection(AsyncConnection[Any]):
    known = False


def peek(connection: Connection[Any], query: Query[Result], schema: str) -> Result:
    """As run(), for who only shows it: times that Python does not know are the first or the last that it does."""
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
    if query.often and isinstance(connection, OwnConnection) and not connection.known:
        _learn(connection, run(connection, _SERVER_PROCESS, schema))
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(query.bound(schema), query.params, prepare=_may_be_prepared(query))
        return query.read(cursor.fetchall() if _has_rows(cursor) else ())


async def arun(connection: AsyncConnection[Any], query: Query[Result], schema: str) -> Result:
    if query.often and isinstance(connection, OwnAsyncConnection) and not connection.known:
        _learn(connection, await arun(connection, _SERVER_PROCESS, schema))
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(query.bound(schema), query.params, prepare=_may_be_prepared(query))
        return query.read(await cursor.fetchall() if _has_rows(cursor) else ())


def _learn(connection: OwnConnection | OwnAsyncConnection, process: int) -> None:
    connection.known = True
    connection.prepare_threshold = PREPARED_AFTER if process == connection.info.backend_pid else None


def _may_be_prepared(query: Query[Any]) -> bool | None:
    # The others are planned for their values: a search that leaves half of them out wants another plan than the rest.
    return None if query.often else False


def _has_rows(cursor: Cursor[Any] | AsyncCursor[Any]) -> bool:
    # The cursor's own description says the same, and takes a twentieth of an enqueue to be made.
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0
