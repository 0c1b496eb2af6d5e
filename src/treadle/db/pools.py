"""Connection pools that reconnect after a restart of the server or a failover to another one.

The caller sees the error of the statement that was in progress; whether it was carried out is unknown. The pool then
closes all other connections to the old server, and the next statement waits for a new connection.
"""

import asyncio
import logging
import math
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

from treadle.db import screen_limits
from treadle.db.own_connection import OwnAsyncConnection, OwnConnection
from treadle.db.reconnecting import Outage
from treadle.db.url import described, hosts, patient, reason_of
from treadle.settings import chosen
from treadle.text.log import log
from treadle.words.connections import Connections
from treadle.words.duration import duration
from treadle.words.errors import InvalidArgument

NAME = "treadle"
# How much longer a caller waits if all connections are in use.
BUSY_SECONDS = 25.0
# No statement is prepared before it is known that no pooler sits in between: see runner.py.
SETTINGS: dict[str, Any] = {"autocommit": True, "prepare_threshold": None, "application_name": "treadle"}
# A pool doubles its delay after each failed attempt to connect: after an outage of a minute it would wait for another
# minute (measured: 11 s after an outage of 20 s). So it gives up early, and starts again if a caller is waiting.
RECONNECT_SECONDS = 2.0
# Connections that break within this time are closed once, together.
RENEW_SECONDS = 1.0


def server_changed(error: BaseException, connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Whether the other connections are broken too: the server is gone, or became a standby, which refuses writes."""
    return connection.broken or isinstance(error, psycopg.errors.ReadOnlySqlTransaction)


class PoolBusy(PoolTimeout):
    """The database answers, but all connections are in use."""


class Limits(NamedTuple):
    """In seconds."""

    connect: float
    """At each host of the URL; this is how long a caller waits for a connection."""
    answer: float | None
    """How long a statement may take; None: for ever."""


def chosen_limits(given: Connections) -> Limits:
    """The given ones, else those of the settings, else the defaults."""
    connect = duration(chosen(given.connect_timeout, "connect_timeout"), "connect_timeout").total_seconds()
    answer = duration(chosen(given.statement_timeout, "statement_timeout"), "statement_timeout").total_seconds()
    if connect <= 0:
        raise InvalidArgument("connect_timeout must be more than 0")
    return Limits(connect, answer or None)


class ConnectionLog:
    """Writes one line when connecting fails, and one when it works again."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._outage = Outage()
        self.reason = ""

    @contextmanager
    def connecting(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.failed(error)
            raise
        self.succeeded()

    def failed(self, error: Exception) -> None:
        self.reason = reason_of(error, self._url)
        if self._outage.failed():
            log.error("the database at %s is unavailable: %s", described(self._url), self.reason)

    def succeeded(self) -> None:
        self.reason = ""
        if (seconds := self._outage.succeeded()) is not None:
            log.warning("the database is back after %.1f seconds", seconds)


class _Shared:
    """What the sync pool and the async one have in common: everything but the waiting."""

    max_size: int
    _check_alive: Any

    def _prepare(self, url: str, size: int, limits: Limits) -> dict[str, Any]:
        """Sets its own attributes, and returns the options of both pools."""
        self._renewed = float("-inf")
        self._taken = set[object]()
        self._wait_seconds = limits.connect * hosts(url)
        self._connection_log = ConnectionLog(url)
        return {
            "conninfo": patient(url, math.ceil(limits.connect)),
            "kwargs": SETTINGS,
            "min_size": 1,
            "max_size": size,
            "open": False,
            "name": NAME,
            "check": self._check_alive,
            "reconnect_timeout": RECONNECT_SECONDS,
        }

    def _fail_unless_busy(self, error: PoolTimeout, seconds: float) -> None:
        """Not if all connections are in use: then the server works, and it is worth waiting for longer."""
        if len(self._taken) < self.max_size:
            reason = self._connection_log.reason
            raise PoolTimeout(f"none within {seconds:g} seconds" + (f": {reason}" if reason else "")) from error

    def _busy(self, seconds: float) -> PoolBusy:
        return PoolBusy(f"all {self.max_size} were in use for {seconds:g} seconds; you may need a larger pool_size")

    def _is_to_be_renewed(self) -> bool:
        now = time.monotonic()
        if now - self._renewed <= RENEW_SECONDS:
            return False
        self._renewed = now
        return True


class Pool(_Shared, ConnectionPool[OwnConnection]):
    def __init__(self, url: str, size: int, limits: Limits) -> None:
        options = self._prepare(url, size, limits)
        log_of_pool = self._connection_log

        class Logging(OwnConnection):
            answer_seconds = limits.answer

            @classmethod
            def connect(cls, *arguments: Any, **options: Any) -> Any:
                with log_of_pool.connecting():
                    return super().connect(*arguments, **options)

        super().__init__(connection_class=Logging, reconnect_failed=_retry_connecting, **options)

    def take(self) -> OwnConnection:
        try:
            connection = self.getconn(self._wait_seconds)
        except PoolTimeout as error:
            self._fail_unless_busy(error, self._wait_seconds)
            connection = self._take_busy()
        self._taken.add(connection)
        return connection

    def give(self, connection: OwnConnection) -> None:
        self._taken.discard(connection)
        self.putconn(connection)

    def renew(self) -> None:
        """Close idle connections now, and the others when they are returned."""
        if self._is_to_be_renewed():
            self.drain()

    def _take_busy(self) -> OwnConnection:
        try:
            return self.getconn(BUSY_SECONDS)
        except PoolTimeout as error:
            raise self._busy(self._wait_seconds + BUSY_SECONDS) from error

    def _check_alive(self, connection: Connection[Any]) -> None:
        if _is_readable(connection.fileno()):
            try:
                connection.execute("")
            except psycopg.Error:
                self.renew()
                raise


class AsyncPool(_Shared, AsyncConnectionPool[OwnAsyncConnection]):
    def __init__(self, url: str, size: int, limits: Limits) -> None:
        options = self._prepare(url, size, limits)
        log_of_pool = self._connection_log

        class Logging(OwnAsyncConnection):
            answer_seconds = limits.answer

            @classmethod
            async def connect(cls, *arguments: Any, **options: Any) -> Any:
                with log_of_pool.connecting():
                    return await super().connect(*arguments, **options)

        super().__init__(connection_class=Logging, reconnect_failed=_aretry_connecting, **options)

    async def take(self) -> OwnAsyncConnection:
        limits = screen_limits.current()
        seconds = self._wait_seconds if limits is None else min(self._wait_seconds, limits.connection)
        try:
            connection = await self.getconn(seconds)
        except PoolTimeout as error:
            self._fail_unless_busy(error, seconds)
            if limits is not None:
                raise self._busy(seconds) from error
            connection = await self._take_busy()
        self._taken.add(connection)
        return connection

    async def give(self, connection: OwnAsyncConnection) -> None:
        self._taken.discard(connection)
        await self.putconn(connection)

    @classmethod
    async def worker(cls, *queue: Any) -> None:
        """A pool worker that is cancelled while it connects ignores the cancellation, and asyncio.run would then wait
        for it forever at the end of any program that does not close its pool. So cancel it until it ends."""
        work = asyncio.create_task(super().worker(*queue))
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            while not work.done():
                work.cancel()
                await asyncio.wait({work}, timeout=0.1)
            raise

    async def renew(self) -> None:
        if self._is_to_be_renewed():
            await self.drain()

    async def _take_busy(self) -> OwnAsyncConnection:
        try:
            return await self.getconn(BUSY_SECONDS)
        except PoolTimeout as error:
            raise self._busy(self._wait_seconds + BUSY_SECONDS) from error

    async def _check_alive(self, connection: AsyncConnection[Any]) -> None:
        if _is_readable(connection.fileno()):
            try:
                await connection.execute("")
            except psycopg.Error:
                await self.renew()
                raise


def _is_ours(record: logging.LogRecord) -> bool:
    """A pool logs each attempt to connect, and each connection that it discards: hundreds of lines per outage."""
    args = record.args if isinstance(record.args, tuple) else ()
    return bool(args) and (args[0] == NAME or isinstance(args[0], OwnConnection | OwnAsyncConnection))


logging.getLogger("psycopg.pool").addFilter(lambda record: record.levelno < logging.WARNING or not _is_ours(record))


def _is_readable(descriptor: int) -> bool:
    """An idle connection becomes readable only when the server closes it. Asking the kernel takes 2 µs; a statement to
    the server would double the time of an enqueue."""
    if sys.platform == "win32":
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _retry_connecting(pool: ConnectionPool[Any]) -> None:
    if _is_awaited(pool.get_stats):
        # This is how a pool is made to open one more connection.
        pool.resize(0, pool.max_size)
        pool.resize(1, pool.max_size)


async def _aretry_connecting(pool: AsyncConnectionPool[Any]) -> None:
    if _is_awaited(pool.get_stats):
        await pool.resize(0, pool.max_size)
        await pool.resize(1, pool.max_size)


def _is_awaited(stats: Callable[[], dict[str, int]]) -> bool:
    """If no caller waits for a connection, the next one that does makes the pool try again."""
    return stats().get("requests_waiting", 0) > 0
