"""Runs the queries of `treadle doctor` on a connection of its own: read-only, with a timeout of a few seconds.

Not on the pools, which need a schema of this version and a free connection. Each query is a transaction: one that fails
does not affect the others, and behind a connection pooler no setting outlives it.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol
from uuid import uuid4

import psycopg
from psycopg import AsyncConnection, Connection, sql
from psycopg.pq import TransactionStatus

from treadle.db import screen_limits
from treadle.db.database import Database
from treadle.db.own_connection import OwnAsyncConnection, OwnConnection, limited
from treadle.db.query import Query, QueryFailed, Result
from treadle.db.runner import apeek, peek, read_settings
from treadle.db.setup_connection import unreachable
from treadle.db.url import patient
from treadle.words.errors import DatabaseUnreachable

SECONDS = 3.0
# How much longer than that the client waits: until then the server has answered, or it does not answer at all.
ANSWER_SECONDS = 2.0
LOCK_SECONDS = 0.5
# A notification takes milliseconds. One that has not arrived by then was lost.
NOTIFICATION_SECONDS = 2.0
NAME = "treadle doctor"

_CONNECTION: dict[str, Any] = {"autocommit": True, "prepare_threshold": None, "application_name": NAME}
# In addition to read_settings: wait only briefly for locks, and leave the planner only plans that use indexes.
_SETTINGS = b"""
set local enable_bitmapscan = off;
set local enable_hashjoin = off;
set local enable_mergejoin = off"""


class RunQuery(Protocol):
    def __call__(self, query: Query[Result], lock_seconds: float | None = None) -> Result | QueryFailed: ...


class ARunQuery(Protocol):
    def __call__(self, query: Query[Result], lock_seconds: float | None = None) -> Awaitable[Result | QueryFailed]: ...


@contextmanager
def examination(database: Database, seconds: float | None = None) -> Iterator[RunQuery]:
    seconds = SECONDS if seconds is None else seconds
    with _connection(database) as connection, limited(connection, seconds + ANSWER_SECONDS):

        def run(query: Query[Result], lock_seconds: float | None = None) -> Result | QueryFailed:
            try:
                # In a transaction of the caller's, the settings must not outlive the query.
                with connection.transaction(force_rollback=_is_inside(connection)):
                    connection.execute(_settings(seconds, lock_seconds))
                    return peek(connection, query, database.schema)
            except psycopg.Error as error:
                if connection.closed:
                    raise _lost(error, database) from None
                return _failure(error)

        yield run


@asynccontextmanager
async def aexamination(database: Database, seconds: float | None = None) -> AsyncIterator[ARunQuery]:
    seconds = SECONDS if seconds is None else seconds
    async with _aconnection(database) as connection:

        async def run(query: Query[Result], lock_seconds: float | None = None) -> Result | QueryFailed:
            try:
                with limited(connection, seconds + ANSWER_SECONDS):
                    async with connection.transaction(force_rollback=_is_inside(connection)):
                        await connection.execute(_settings(seconds, lock_seconds))
                        return await apeek(connection, query, database.schema)
            except psycopg.Error as error:
                if connection.closed:
                    raise _lost(error, database) from None
                return _failure(error)

        yield run


def receives_notifications(database: Database, seconds: float = NOTIFICATION_SECONDS) -> bool | QueryFailed | None:
    """Whether a test notification arrives. None: the connection belongs to the caller, and no other can be opened; or
    the queue of notifications is full, which is another finding.

    It is sent from one connection to another: a pooler that maps both to the same server connection would otherwise
    deliver it to its sender.
    """
    if not database.owned:
        return None
    channel = f"treadle_doctor_{uuid4().hex}"
    try:
        with _connect(database, database.listen_url) as listener, _connect(database, database.target) as sender:
            listener.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
            sender.execute("select pg_catalog.pg_notify(%s, '')", [channel])
            return any(True for _ in listener.notifies(timeout=seconds, stop_after=1))
    except psycopg.errors.ProgramLimitExceeded:
        return None
    except psycopg.Error as error:
        # There is no free connection, or the server is a standby. The other checks still run.
        return _failure(error)


async def areceives_notifications(
    database: Database, seconds: float = NOTIFICATION_SECONDS
) -> bool | QueryFailed | None:
    return await asyncio.to_thread(receives_notifications, database, seconds)


@contextmanager
def _connection(database: Database) -> Iterator[Connection[Any]]:
    if database.owned:
        try:
            opened = _connect(database, database.target)
        except psycopg.OperationalError as error:
            raise unreachable(error, database.target) from None
        with opened as connection:
            yield connection
    else:
        with database.transaction() as connection:
            yield connection


@asynccontextmanager
async def _aconnection(database: Database) -> AsyncIterator[AsyncConnection[Any]]:
    if not database.owned:
        async with database.atransaction() as connection:
            yield connection
        return
    url = await asyncio.to_thread(lambda: database.target)
    try:
        opened = await OwnAsyncConnection.connect(patient(url, _connect_seconds(database)), **_CONNECTION)
    except psycopg.OperationalError as error:
        raise unreachable(error, url) from None
    async with opened:
        yield opened


def _connect(database: Database, url: str) -> OwnConnection:
    connection = OwnConnection.connect(patient(url, _connect_seconds(database)), **_CONNECTION)
    connection.answer_seconds = SECONDS + ANSWER_SECONDS
    return connection


def _connect_seconds(database: Database) -> int:
    brief = screen_limits.current()
    return math.ceil(database.limits.connect if brief is None else min(database.limits.connect, brief.connection))


def _lost(error: psycopg.Error, database: Database) -> DatabaseUnreachable:
    if database.owned:
        return unreachable(error, database.target)
    return DatabaseUnreachable(f"the connection was lost: {error}")


def _is_inside(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    return connection.info.transaction_status != TransactionStatus.IDLE


def _settings(seconds: float, lock_seconds: float | None = None) -> bytes:
    return (
        read_settings(seconds, lock_seconds=LOCK_SECONDS if lock_seconds is None else lock_seconds) + b";" + _SETTINGS
    )


def _failure(error: psycopg.Error) -> QueryFailed:
    return QueryFailed(
        message=str(error).strip().split("\n", 1)[0],
        permission_denied=isinstance(error, psycopg.errors.InsufficientPrivilege),
        timed_out=isinstance(error, psycopg.errors.QueryCanceled | psycopg.errors.LockNotAvailable),
    )
