"""Over our own pools, which are opened when they are first needed: every statement is its own transaction."""

import asyncio
import math
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection, sql

from treadle.db.migrations import check_schema, migrate
from treadle.db.own_connection import OwnConnection, limited
from treadle.db.pools import AsyncPool, Limits, Pool, server_changed
from treadle.db.queries import worker as worker_queries
from treadle.db.runner import run
from treadle.db.session_settings import with_needed_settings
from treadle.db.setup_connection import connect, unreachable
from treadle.db.transport import Driver, Receive
from treadle.db.url import Target, patient, require_url, resolve, resolve_listening
from treadle.words.connections import Connections
from treadle.words.errors import DatabaseUnreachable
from treadle.words.interruption import uninterrupted


class Pooled(Driver):
    owned = True

    def __init__(
        self, given: str | Callable[[], str] | None, schema: str, connections: Connections, limits: Limits
    ) -> None:
        """`given` is a URL, or a function that returns it when it is first needed."""
        if isinstance(given, str):
            require_url(given)
        self.schema = schema
        self.embedded = False  # known once it is connected
        self._given, self._size, self._limits = given, connections.pool_size, limits
        self._listen_url = resolve_listening(connections.listen_url)
        self._url: str | None = None
        self._checking, self._lock = threading.Lock(), threading.Lock()
        self._failed: tuple[float, DatabaseUnreachable] | None = None  # when and how the last check failed
        self._pool: Pool | None = None
        self._close_pool: weakref.finalize[[], Pooled] | None = None
        self._apool: AsyncPool | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()

    @property
    def url(self) -> str:
        """After connecting and checking the schema. The schema of the embedded server is migrated."""
        if self._url is None:
            began = time.monotonic()
            with self._checking:
                self._raise_failure_since(began)
                try:
                    self._url = self._url or self._check(resolve(self._given))
                except DatabaseUnreachable as error:
                    self._failed = (time.monotonic(), error)
                    raise
        return self._url

    @property
    def listen_url(self) -> str:
        return self._listen_url or self.target

    @property
    def target(self) -> str:
        """Without checking the schema. (The embedded server is started and migrated.)"""
        if self._url is None:
            target = resolve(self._given)
            return self.url if target.embedded else target.url
        return self._url

    @property
    def known_url(self) -> str | None:
        return self._url

    def migrate(self) -> Target:
        target = resolve(self._given)
        migrate(target.url, self.schema)
        return target

    def use(self, url: str) -> None:
        if self._url is None:
            self._url = url

    @contextmanager
    def listening(self, *kinds: str) -> Iterator[Receive]:
        url = patient(self.listen_url, math.ceil(self._limits.connect))
        with OwnConnection.connect(url, autocommit=True, prepare_threshold=None) as connection:
            with limited(connection, self._limits.answer):
                channels = {run(connection, worker_queries.get_channel(kind), self.schema): kind for kind in kinds}
                for channel in channels:
                    connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))

            def receive(seconds: float) -> Iterator[tuple[str, str]]:
                for notification in connection.notifies(timeout=seconds, stop_after=1):
                    yield channels[notification.channel], notification.payload

            yield receive

    def close(self) -> None:
        """Close the sync pool. The async one needs aclose()."""
        if self._close_pool:
            self._close_pool()
            self._pool = self._close_pool = None

    async def aclose(self) -> None:
        if self._apool is not None:
            pool, self._apool = self._apool, None  # not used again, even if closing it is interrupted
            if self._loop is asyncio.get_running_loop():  # else it has ended, with what it ran
                await pool.close()
        self.close()

    @contextmanager
    def taken(self) -> Iterator[Connection[Any]]:
        pool = self._pool or self._open_pool()
        connection = None
        try:
            # Not with the pool's context manager: it ends a transaction, and these connections never have one open.
            with uninterrupted():
                connection = pool.take()
            yield connection
        except psycopg.Error as error:
            if connection is not None and server_changed(error, connection):
                pool.renew()
            raise
        finally:
            if connection is not None:
                _give(pool, connection)

    @asynccontextmanager
    async def ataken(self) -> AsyncIterator[AsyncConnection[Any]]:
        if self._loop is not asyncio.get_running_loop():
            # A pool belongs to its event loop: calling asyncio.run twice needs two pools.
            self._apool, self._loop, self._opening = None, asyncio.get_running_loop(), asyncio.Lock()
        if self._apool is None:
            began = time.monotonic()
            async with self._opening:
                self._raise_failure_since(began)
                self._apool = self._apool or await self._aopen_pool()
        pool = self._apool
        connection = await pool.take()
        try:
            yield connection
        except psycopg.Error as error:
            if server_changed(error, connection):
                await pool.renew()
            raise
        finally:
            await pool.give(connection)

    def _open_pool(self) -> Pool:
        url = self.url
        with self._lock:
            if self._pool is None:
                pool = Pool(url, self._size, self._limits)
                pool.open()
                # Also at exit: the interpreter would wait for the threads of an open pool.
                self._close_pool = weakref.finalize(self, pool.close)
                self._pool = pool
            return self._pool

    async def _aopen_pool(self) -> AsyncPool:
        pool = AsyncPool(await asyncio.to_thread(lambda: self.url), self._size, self._limits)
        await pool.open()
        return pool

    def _check(self, target: Target) -> str:
        if target.embedded:
            self.embedded = True
            migrate(target.url, self.schema)
            return target.url
        try:
            with connect(target.url, self._limits.connect) as connection:
                check_schema(connection, self.schema)
                return with_needed_settings(target.url, connection)
        except psycopg.OperationalError as error:  # lost, or no answer
            raise unreachable(error, target.url) from None

    def _raise_failure_since(self, moment: float) -> None:
        """Callers that waited while another one tried to connect do not try again, one after the other."""
        if self._url is None and self._failed is not None and self._failed[0] > moment:
            raise DatabaseUnreachable(str(self._failed[1]), self._failed[1].summary)


def _give(pool: Pool, connection: OwnConnection) -> None:
    """A handler is interrupted once at most, perhaps just here."""
    given = False
    try:
        with uninterrupted():
            pool.give(connection)
            given = True
    finally:
        if not given:
            pool.give(connection)
