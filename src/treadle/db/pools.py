"""Connection pools that reconnect after a restart of the server or a failover to another one.

The caller sees the error of the statement that was in progress; whether it was carried out is unknown. The pool then
closes all other connections to the old server, and the next statement waits for a new connection.
"""

import asyncio
import select
import sys
import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from treadle.db.own_connection import OwnAsyncConnection, OwnConnection
from treadle.db.url import patient

# No statement is prepared before it is known that no pooler sits in between: see runner.py.
SETTINGS: dict[str, Any] = {"autocommit": True, "prepare_threshold": None, "application_name": "treadle"}
# A pool doubles its delay after each failed attempt to connect: after an outage of a minute it would wait for another
# minute (measured: 11 s after an outage of 20 s). So it gives up early, and starts again if a caller is waiting.
RECONNECT_SECONDS = 2.0
_OPTIONS: dict[str, Any] = {
    "kwargs": SETTINGS,
    "min_size": 1,
    "open": False,
    "name": "treadle",
    "reconnect_timeout": RECONNECT_SECONDS,
}
# Connections that break within this time are closed once, together.
RENEW_SECONDS = 1.0


def server_changed(error: BaseException, connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Whether the other connections are broken too: the server is gone, or became a standby, which refuses writes."""
    return connection.broken or isinstance(error, psycopg.errors.ReadOnlySqlTransaction)


class Pool(ConnectionPool[Connection[Any]]):
    def __init__(self, url: str, size: int) -> None:
        self._renewed = float("-inf")
        super().__init__(
            patient(url),
            max_size=size,
            connection_class=OwnConnection,
            check=self._check_alive,
            reconnect_failed=_retry_connecting,
            **_OPTIONS,
        )

    def renew(self) -> None:
        """Close idle connections now, and the others when they are returned."""
        if time.monotonic() - self._renewed > RENEW_SECONDS:
            self._renewed = time.monotonic()
            self.drain()

    def _check_alive(self, connection: Connection[Any]) -> None:
        if _is_readable(connection.fileno()):
            try:
                connection.execute("")
            except psycopg.Error:
                self.renew()
                raise


class AsyncPool(AsyncConnectionPool[AsyncConnection[Any]]):
    def __init__(self, url: str, size: int) -> None:
        self._renewed = float("-inf")
        super().__init__(
            patient(url),
            max_size=size,
            connection_class=OwnAsyncConnection,
            check=self._check_alive,
            reconnect_failed=_aretry_connecting,
            **_OPTIONS,
        )

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
        if time.monotonic() - self._renewed > RENEW_SECONDS:
            self._renewed = time.monotonic()
            await self.drain()

    async def _check_alive(self, connection: AsyncConnection[Any]) -> None:
        if _is_readable(connection.fileno()):
            try:
                await connection.execute("")
            except psycopg.Error:
                await self.renew()
                raise


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
