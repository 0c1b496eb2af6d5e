"""Runs a Query on a connection: one sync and one async implementation, and no other.

Nothing is committed or rolled back here. On an autocommit connection each statement is its own transaction; on any
other connection the query joins the transaction that the caller has open.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor, DataError
from psycopg.abc import Buffer
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.types.datetime import TimestamptzLoader

from treadle.db import screen_limits
from treadle.db.function_settings import PINNED_LOCALLY
from treadle.db.own_connection import OwnAsyncConnection, OwnConnection, PreparedStatements, limited
from treadle.db.query import Query, Result

# The range of years that Python's datetime supports, with room for time zones.
EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
LATEST = datetime(9999, 12, 30, tzinfo=UTC)

# A read whose client was lost, for example with its machine, ends. It would keep locks and a snapshot for the hours
# after which TCP gives up.
IDLE_SECONDS = 5.0
_SERVER_PROCESS: Query[int] = Query("select pg_catalog.pg_backend_pid()", {}, lambda rows: rows[0][0])


class Clamped(TimestamptzLoader):
    """PostgreSQL has times that Python cannot represent, such as infinity. A job with one must not break a list."""

    def load(self, data: Buffer) -> datetime:
        try:
            return super().load(data)
        except DataError:
            text = bytes(data)
            return EARLIEST if text.startswith(b"-") or text.endswith(b"BC") else LATEST


def read_settings(seconds: float, one_snapshot: bool = False, lock_seconds: float | None = None) -> bytes:
    """The settings of a read: read-only, with a time limit and a pinned search path. Sequential scans are off, so that
    a generic or outdated estimate never reads a whole table; JIT is off, which would compile for 500 ms what runs for
    2 ms. With `one_snapshot`, all statements of the transaction see the same state: not in a transaction that has begun
    before. With `lock_seconds`, it waits less long for a lock."""
    level = "isolation level repeatable read, " if one_snapshot else ""
    lock = "" if lock_seconds is None else f";\nset local lock_timeout = {round(lock_seconds * 1000)}"
    return f"""\
set transaction {level}read only;
{PINNED_LOCALLY};
set local statement_timeout = {round(seconds * 1000)};
set local idle_in_transaction_session_timeout = {round(IDLE_SECONDS * 1000)};
set local enable_seqscan = off;
set local jit = off{lock}""".encode()


def peek(connection: Connection[Any], query: Query[Result], schema: str) -> Result:
    """Like run(), for display: a time outside the range of Python becomes the earliest or the latest time in it."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(query.bound(schema), query.params)
        try:
            rows = cursor.fetchall() if _has_rows(cursor) else []
        except DataError:
            # Read again: psycopg's own loader takes a fifth of the time, and such times are rare.
            cursor.adapters.register_loader("timestamptz", Clamped)
            rows = cursor.execute(query.bound(schema), query.params).fetchall()
        return query.read(rows)


async def apeek(connection: AsyncConnection[Any], query: Query[Result], schema: str) -> Result:
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(query.bound(schema), query.params)
        try:
            rows = await cursor.fetchall() if _has_rows(cursor) else []
        except DataError:
            cursor.adapters.register_loader("timestamptz", Clamped)
            await cursor.execute(query.bound(schema), query.params)
            rows = await cursor.fetchall()
        return query.read(rows)


def peek_together(
    connection: Connection[Any], queries: Sequence[Query[Result]], seconds: float, schema: str
) -> list[Result]:
    """Several reads in a transaction of their own, each within `seconds`."""
    one_snapshot = _sees_one_snapshot(connection, queries)
    # Rolled back, so that the settings do not outlive it in a caller's transaction.
    with connection.transaction(force_rollback=True):
        connection.execute(read_settings(seconds, one_snapshot))
        return [peek(connection, query, schema) for query in queries]


async def apeek_together(
    connection: AsyncConnection[Any], queries: Sequence[Query[Result]], seconds: float, schema: str
) -> list[Result]:
    """The same; sooner if the caller has shorter limits."""
    limits, one_snapshot = screen_limits.current(), _sees_one_snapshot(connection, queries)
    with nullcontext() if limits is None else limited(connection, limits.answer):
        async with connection.transaction(force_rollback=True):
            lock_seconds = None if limits is None else limits.read_lock
            await connection.execute(read_settings(screen_limits.shortened(seconds), one_snapshot, lock_seconds))
            return [await apeek(connection, query, schema) for query in queries]


def _sees_one_snapshot(connection: Connection[Any] | AsyncConnection[Any], queries: Sequence[Query[Any]]) -> bool:
    """Not in a transaction that has begun before."""
    return connection.info.transaction_status == TransactionStatus.IDLE and len(queries) > 1


def run(connection: Connection[Any], query: Query[Result], schema: str) -> Result:
    if query.often and isinstance(connection, OwnConnection):
        if not connection.checked:
            _allow_preparing(connection, run(connection, _SERVER_PROCESS, schema))
        if (prepared := connection.prepared) is not None and prepared.includes(text := query.bound(schema)):
            with connection.lock:
                return query.read(connection.wait(prepared.run(text, _params(connection, query))))
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(query.bound(schema), _params(connection, query), prepare=_may_be_prepared(query))
        return query.read(cursor.fetchall() if _has_rows(cursor) else ())


async def arun(connection: AsyncConnection[Any], query: Query[Result], schema: str) -> Result:
    if query.often and isinstance(connection, OwnAsyncConnection):
        if not connection.checked:
            _allow_preparing(connection, await arun(connection, _SERVER_PROCESS, schema))
        if (prepared := connection.prepared) is not None and prepared.includes(text := query.bound(schema)):
            async with connection.lock:
                return query.read(await connection.wait(prepared.run(text, _params(connection, query))))
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(query.bound(schema), _params(connection, query), prepare=_may_be_prepared(query))
        return query.read(await cursor.fetchall() if _has_rows(cursor) else ())


async def arun_together(
    connection: AsyncConnection[Any],
    queries: Sequence[Query[Result]],
    schema: str,
    pinned: bool,
    limits: screen_limits.TimeLimits | None,
) -> list[Result]:
    """All of them or none. With `limits`, they fail rather than wait for a lock, and have then changed nothing."""
    several = needs_transaction(connection, queries)
    async with connection.transaction() if several or limits is not None else nullcontext():
        if pinned:
            await connection.execute(PINNED_LOCALLY)
        if limits is not None:
            await connection.execute(f"set local lock_timeout = {round(limits.lock * 1000)}".encode())
        return [await arun(connection, query, schema) for query in queries]


def needs_transaction(connection: Connection[Any] | AsyncConnection[Any], queries: Sequence[Query[Any]]) -> bool:
    several = len(queries) > 1 or any(query.pinned for query in queries)
    return several and connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE


def _allow_preparing(connection: OwnConnection | OwnAsyncConnection, process: int) -> None:
    """Unless there is a pooler in between."""
    connection.checked = True
    if process == connection.info.backend_pid:
        connection.prepared = PreparedStatements(connection)


def _params(connection: Connection[Any] | AsyncConnection[Any], query: Query[Any]) -> Mapping[str, Any]:
    """Whether a statement is a transaction by itself is only known of our own connections: on one of the caller's, a
    BEGIN may be on its way in a pipeline."""
    if not query.alone:
        return query.params
    own = isinstance(connection, OwnConnection | OwnAsyncConnection) and connection.autocommit
    return {**query.params, "alone": own and connection.info.transaction_status == TransactionStatus.IDLE}


def _may_be_prepared(query: Query[Any]) -> bool | None:
    # All others are planned for their values: a search with other filters needs another plan.
    return None if query.often else False


def _has_rows(cursor: Cursor[Any] | AsyncCursor[Any]) -> bool:
    # cursor.description says the same, but building it takes 5 % of the time of an enqueue.
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0
