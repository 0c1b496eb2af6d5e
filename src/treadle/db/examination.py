"""How the doctor looks: on a connection of its own, which can only read and gives up after a few seconds.

Not on the pools: those want a schema that fits, and a connection that is to be had. Each look is a transaction, so that
one that fails leaves the others alone; through a pooler nothing outlives it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol
from uuid import uuid4

import psycopg
from psycopg import AsyncConnection, Connection, sql
from psycopg.pq import TransactionStatus

from treadle.db.database import Database, read_settings
from treadle.db.migrations import unreachable
from treadle.db.query import Query, Result
from treadle.db.runner import apeek, peek
from treadle.doctor.facts import Refused
from treadle.words.errors import DatabaseUnreachable

SECONDS = 3.0
# A notification takes milliseconds. Where none came within this time, none comes.
HEARING_SECONDS = 2.0
NAME = "treadle doctor"

_CONNECTION: dict[str, Any] = {
    "autocommit": True,
    "connect_timeout": 10,
    "prepare_threshold": None,
    "application_name": NAME,
}
# Besides those of every look: nothing is waited for, and the planner has no choice at all; see claim_jobs.sql.
_SETTINGS = b"""
set local lock_timeout = 500;
set local enable_bitmapscan = off;
set local enable_hashjoin = off;
set local enable_mergejoin = off"""


class Look(Protocol):
    def __call__(self, query: Query[Result]) -> Result | Refused: ...


class ALook(Protocol):
    def __call__(self, query: Query[Result]) -> Awaitable[Result | Refused]: ...


@contextmanager
def looking(database: Database, seconds: float = SECONDS) -> Iterator[Look]:
    with _connection(database) as connection:

        def look(query: Query[Result]) -> Result | Refused:
            try:
                # Inside a transaction of the caller's: what was set must not outlive the look.
                with connection.transaction(force_rollback=_is_inside(connection)):
                    connection.execute(_settings(seconds))
                    return peek(connection, query, database.schema)
            except psycopg.Error as error:
                if connection.closed:
                    raise _lost(error, database) from None
                return _refused(error)

        yield look


@asynccontextmanager
async def alooking(database: Database, seconds: float = SECONDS) -> AsyncIterator[ALook]:
    async with _aconnection(database) as connection:

        async def look(query: Query[Result]) -> Result | Refused:
            try:
                async with connection.transaction(force_rollback=_is_inside(connection)):
                    await connection.execute(_settings(seconds))
                    return await apeek(connection, query, database.schema)
            except psycopg.Error as error:
                if connection.closed:
                    raise _lost(error, database) from None
                return _refused(error)

        yield look


def hears(database: Database, seconds: float = HEARING_SECONDS) -> bool | Refused | None:
    """Whether a notification arrives: really sent, to a connection that does nothing but listen. None: the connections
    are the caller's, and none can be opened.

    By another connection: a pooler that gives both the same one of the server would deliver it to who sent it.
    """
    if not database.owned:
        return None
    channel, url = f"treadle_doctor_{uuid4().hex}", database.target
    try:
        with psycopg.connect(url, **_CONNECTION) as listener, psycopg.connect(url, **_CONNECTION) as sender:
            listener.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
            sender.execute("select pg_notify(%s, '')", [channel])
            return any(True for _ in listener.notifies(timeout=seconds, stop_after=1))
    except psycopg.Error as error:
        # No connection is left, or it is a standby: worth a word, and no reason to say nothing else.
        return _refused(error)


async def ahears(database: Database, seconds: float = HEARING_SECONDS) -> bool | Refused | None:
    return await asyncio.to_thread(hears, database, seconds)


@contextmanager
def _connection(database: Database) -> Iterator[Connection[Any]]:
    if database.owned:
        with _open(database.target) as connection:
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
        opened = await AsyncConnection.connect(url, **_CONNECTION)
    except psycopg.OperationalError as error:
        raise unreachable(error, url) from None
    async with opened:
        yield opened


def _open(url: str) -> Connection[Any]:
    try:
        return psycopg.connect(url, **_CONNECTION)
    except psycopg.OperationalError as error:
        raise unreachable(error, url) from None


def _lost(error: psycopg.Error, database: Database) -> DatabaseUnreachable:
    if database.owned:
        return unreachable(error, database.target)
    return DatabaseUnreachable(f"the connection was lost: {error}")


def _is_inside(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    return connection.info.transaction_status != TransactionStatus.IDLE


def _settings(seconds: float) -> bytes:
    return read_settings(seconds) + b";" + _SETTINGS


def _refused(error: psycopg.Error) -> Refused:
    slow = isinstance(error, psycopg.errors.QueryCanceled | psycopg.errors.LockNotAvailable)
    denied = isinstance(error, psycopg.errors.InsufficientPrivilege)
    return Refused(str(error).strip().split("\n", 1)[0], denied, slow)
