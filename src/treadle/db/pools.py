"""Our own pools of connections, and how they follow a database that is started again, or moves to another server.

What a caller sees of it is the error of the statement that was under way: whether that was carried out is unknown. All
other connections to the old server are thrown away with it, and the next statement waits for a new one.
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

from treadle.db.runner import OwnAsyncConnection, OwnConnection
from treadle.db.url import patient

# Nothing is prepared before it is known that no pooler stands between.
SETTINGS: dict[str, Any] = {"autocommit": True, "prepare_threshold": None, "application_name": "treadle"}
# A pool doubles its pause after each connection that failed: after an outage of a minute it waits for another one
# (measured: 11 s after 20). So it is made to give up soon, and to begin anew if somebody waits.
RECONNECT_SECONDS = 2.0
_OPTIONS: dict[str, Any] = {
    "kwargs": SETTINGS,
    "min_size": 1,
    "open": False,
    "name": "treadle",
    "reconnect_timeout": RECONNECT_SECONDS,
}
# Those that break together are thrown away together.
RENEW_SECONDS = 1.0


def went_away(error: BaseException, connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Whether the other connections are no better: the server is gone, or was made a standby, which takes no writes."""
    return connection.broken or isinstance(error, psycopg.errors.ReadOnlySqlTransaction)


class Pool(ConnectionPool[Connection[Any]]):
    def __init__(self, url: str, size: int) -> None:
        self._renewed = float("-inf")
        super().__init__(
            patient(url),
            max_size=size,
            connection_class=OwnConnection,
            check=self._still_there,
            reconnect_failed=_try_on,
            **_OPTIONS,
        )

    def renew(self) -> None:
        """Throw away what is idle now, and what comes back."""
        if time.monotonic() - self._renewed > RENEW_SECONDS:
            self._renewed = time.monotonic()
            self.drain()

    def _still_there(self, connection: Connection[Any]) -> None:
        if _has_news(connection.fileno()):
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
            check=self._still_there,
            reconnect_failed=_atry_on,
            **_OPTIONS,
        )

    @classmethod
    async def worker(cls, *queue: Any) -> None:
        """One that is cancelled while it connects takes no notice, and asyncio.run then waits for it for ever: at the
        end of any program that does not close its pool. So it is told until it hears."""
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

    async def _still_there(self, connection: AsyncConnection[Any]) -> None:
        if _has_news(connection.fileno()):
            try:
                await connection.execute("")
            except psycopg.Error:
                await self.renew()
                raise


def _has_news(descriptor: int) -> bool:
    """An idle connection has nothing to say but that it ends. Asked of the kernel, in 2 microseconds; a question to the
    server would double the time of an enqueue."""
    if sys.platform == "win32":
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _try_on(pool: ConnectionPool[Any]) -> None:
    if _awaited(pool.get_stats):
        # The way to ask a pool for one more.
        pool.resize(0, pool.max_size)
        pool.resize(1, pool.max_size)


async def _atry_on(pool: AsyncConnectionPool[Any]) -> None:
    if _awaited(pool.get_stats):
        await pool.resize(0, pool.max_size)
        await pool.resize(1, pool.max_size)


def _awaited(stats: Callable[[], dict[str, int]]) -> bool:
    """If nobody waits for a connection, the next one who does makes the pool try again."""
    return stats().get("requests_waiting", 0) > 0
