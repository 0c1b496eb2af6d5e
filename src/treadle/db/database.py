"""Runs queries: on our own pools, or on a connection or pool of the caller.

On our own pools every statement is its own transaction. On a caller's connection nothing is committed or rolled back:
the queue's writes are part of the caller's transaction.
"""

import asyncio
import math
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from types import FunctionType
from typing import Any, TypeAlias

import psycopg
from psycopg import AsyncConnection, Connection, sql
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from treadle.db import patience
from treadle.db.borrowed import AsyncBorrowed, Borrowable, Borrowed, borrow
from treadle.db.explaining import EXPLAINED, explain, in_time, locked_in_time
from treadle.db.function_settings import PINNED_LOCALLY
from treadle.db.migrations import check_schema, migrate
from treadle.db.own_connection import OwnConnection, limited
from treadle.db.pools import AsyncPool, Pool, chosen_limits, server_changed
from treadle.db.queries import worker as worker_queries
from treadle.db.query import Query, Result
from treadle.db.reconnecting import REFUSED, UNAVAILABLE, reconnect_delay
from treadle.db.runner import apeek_together, arun, arun_together, needs_transaction, peek_together, run
from treadle.db.session_settings import with_needed_settings
from treadle.db.setup_connection import connect, unreachable
from treadle.db.url import Target, patient, require_url, resolve, resolve_listening
from treadle.settings import chosen_schema
from treadle.words.duration import Duration
from treadle.words.errors import DatabaseUnreachable, InvalidArgument

SyncSource: TypeAlias = Connection[Any] | ConnectionPool[Any]
AsyncSource: TypeAlias = AsyncConnection[Any] | AsyncConnectionPool[Any]
# A URL, or a function that returns it when it is first needed; or a connection or pool of the caller.
Source: TypeAlias = str | Callable[[], str] | SyncSource | AsyncSource | Borrowable

# A connection with an open transaction.
Transaction: TypeAlias = Connection[Any]
AsyncTransaction: TypeAlias = AsyncConnection[Any]

# How many seconds persist() retries when the connection breaks.
PATIENCE = 30.0
# The default time limit of read() and read_together().
READ_SECONDS = 3.0

# The base of the driver's errors, for packages that must not import the driver.
DatabaseError = psycopg.Error


class Database:
    """Runs queries, sync and async, on the given source. Nothing connects before the first query."""

    def __init__(
        self,
        source: Source | None,
        schema: str | None,
        pool_size: int = 10,
        listen_url: str | None = None,
        connect_timeout: Duration | None = None,
        statement_timeout: Duration | None = None,
    ) -> None:
        self.schema = chosen_schema(schema)
        self.limits = chosen_limits(connect_timeout, statement_timeout)
        self._checking = threading.Lock()
        self._failed: tuple[float, DatabaseUnreachable] | None = None  # when and how the last check failed
        self._pool_size = pool_size
        self._lock = threading.Lock()
        self._url: str | None = None
        self._listen_url = resolve_listening(listen_url)
        self.embedded = False  # known once it is connected
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()
        self._sync: SyncSource | None = None
        self._close_pool: weakref.finalize[[], Database] | None = None
        self._async: AsyncSource | None = None
        self._borrowed: Borrowed | None = None
        self._aborrowed: AsyncBorrowed | None = None
        self.owned = source is None or isinstance(source, str | FunctionType)
        if source is None or isinstance(source, str | FunctionType):
            self._given = source
            if isinstance(source, str):
                require_url(source)
        elif isinstance(source, Connection | ConnectionPool):
            self._sync = source
        elif isinstance(source, AsyncConnection | AsyncConnectionPool):
            self._async = source
        else:
            borrowed = borrow(source, self.schema)
            self._borrowed = borrowed if isinstance(borrowed, Borrowed) else None
            self._aborrowed = borrowed if isinstance(borrowed, AsyncBorrowed) else None
            if borrowed is None:
                raise InvalidArgument(
                    "expected a URL, a psycopg connection or pool, or a connection of asyncpg, SQLAlchemy or "
                    f"Django, got {type(source).__name__}"
                )

    def run(self, query: Query[Result]) -> Result:
        (result,) = self.run_together((query,))
        return result

    def run_together(self, queries: Sequence[Query[Result]]) -> list[Result]:
        """Run all of them or none: in the caller's transaction if one is open, else in a transaction of their own."""
        if self._borrowed:
            return self._borrowed.run_together(queries)
        with self._connection() as connection:
            with connection.transaction() if needs_transaction(connection, queries) else nullcontext():
                if self._pins(queries):
                    connection.execute(PINNED_LOCALLY)
                return [run(connection, query, self.schema) for query in queries]

    def run_in(self, transaction: Transaction, query: Query[Result]) -> Result:
        """Run it inside a transaction() of this database."""
        with limited(transaction, self.limits.answer):
            return run(transaction, query, self.schema)

    async def arun_in(self, transaction: AsyncTransaction, query: Query[Result]) -> Result:
        with limited(transaction, self.limits.answer):
            return await arun(transaction, query, self.schema)

    async def arun(self, query: Query[Result]) -> Result:
        (result,) = await self.arun_together((query,))
        return result

    async def arun_together(self, queries: Sequence[Query[Result]]) -> list[Result]:
        if self._aborrowed:
            return await self._aborrowed.arun_together(queries)
        brief = patience.current() if self.owned else None
        with locked_in_time(brief is not None):
            async with self._aconnection() as connection:
                return await arun_together(connection, queries, self.schema, self._pins(queries), brief)

    def persist(self, query: Query[Result]) -> Result:
        """Run it, and again for up to PATIENCE seconds if the connection breaks. Only for idempotent queries."""
        failures, end = 0, time.monotonic() + PATIENCE
        while True:
            try:
                return self.run(query)
            except REFUSED:
                raise
            except (*UNAVAILABLE, DatabaseUnreachable):
                failures += 1
                if not self.owned or time.monotonic() > end:
                    raise
                time.sleep(reconnect_delay(failures))

    async def apersist(self, query: Query[Result]) -> Result:
        failures, end = 0, time.monotonic() + PATIENCE
        while True:
            try:
                return await self.arun(query)
            except REFUSED:
                raise
            except (*UNAVAILABLE, DatabaseUnreachable):
                failures += 1
                if not self.owned or time.monotonic() > end:
                    raise
                await asyncio.sleep(reconnect_delay(failures))

    def read(self, query: Query[Result], seconds: float = READ_SECONDS) -> Result:
        """Run a query that only shows something: in a read-only transaction, cancelled after `seconds`.

        Times that Python cannot represent are clamped to the first or the last that it can.
        """
        (result,) = self.read_together((query,), seconds)
        return result

    async def aread(self, query: Query[Result], seconds: float = READ_SECONDS) -> Result:
        (result,) = await self.aread_together((query,), seconds)
        return result

    def read_together(self, queries: Sequence[Query[Result]], seconds: float = READ_SECONDS) -> list[Result]:
        """Several reads in one transaction and with one snapshot, so that their results agree with each other."""
        if self._borrowed:
            return self._borrowed.run_together(queries)
        with in_time(), self._connection() as connection:
            return peek_together(connection, queries, seconds, self.schema)

    async def aread_together(self, queries: Sequence[Query[Result]], seconds: float = READ_SECONDS) -> list[Result]:
        if self._aborrowed:
            return await self._aborrowed.arun_together(queries)
        with in_time():
            async with self._aconnection() as connection:
                return await apeek_together(connection, queries, seconds, self.schema)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A connection with an open transaction: committed at the end, rolled back if something is raised."""
        # Errors are not explained, and time is not limited: what runs inside the block is the caller's own statement.
        with self._taken() as connection, connection.transaction(), limited(connection, None):
            yield connection

    @asynccontextmanager
    async def atransaction(self) -> AsyncIterator[AsyncTransaction]:
        async with self._ataken() as connection, connection.transaction():
            with limited(connection, None):
                yield connection

    @property
    def url(self) -> str:
        """The URL, after connecting and checking the schema: for callers that open connections themselves."""
        if not self.owned:
            raise InvalidArgument("this needs a database URL: your connection or pool cannot open another connection")
        return self._checked_url()

    @property
    def listen_url(self) -> str:
        """The URL for connections that listen, which must lead to PostgreSQL itself or to a pool in session mode."""
        return self._listen_url or self.target

    @property
    def target(self) -> str:
        """The URL, without checking the schema. (The embedded server is started and migrated.)"""
        if not self.owned:
            return self.url
        if self._url is None:
            target = resolve(self._given)
            return self._checked_url() if target.embedded else target.url
        return self._url

    def migrate(self) -> Target:
        """Bring the schema up to date, and return which database it is in."""
        if not self.owned:
            raise InvalidArgument("this needs a database URL: your connection or pool cannot open another connection")
        target = resolve(self._given)
        migrate(target.url, self.schema)
        return target

    def use(self, url: str) -> None:
        """Use this URL, which another process has already connected to and checked."""
        if self.owned and self._url is None:
            self._url = url

    @contextmanager
    def listening(self, *kinds: str) -> Iterator[Callable[[float], Iterator[tuple[str, str]]]]:
        """Listen on a connection of its own. Yields a function that waits up to the given number of seconds for a
        notification and yields its kind and its payload."""
        if not self.owned:
            yield _receive_nothing
            return
        url = patient(self.listen_url, math.ceil(self.limits.connect))
        with OwnConnection.connect(url, autocommit=True, prepare_threshold=None) as connection:
            with limited(connection, self.limits.answer):
                channels = {run(connection, worker_queries.get_channel(kind), self.schema): kind for kind in kinds}
                for channel in channels:
                    connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))

            def receive(seconds: float) -> Iterator[tuple[str, str]]:
                for notification in connection.notifies(timeout=seconds, stop_after=1):
                    yield channels[notification.channel], notification.payload

            yield receive

    def close(self) -> None:
        """Close the sync pool if it is ours. The async pool needs aclose()."""
        if self._close_pool:
            self._close_pool()
            self._sync = self._close_pool = None

    async def aclose(self) -> None:
        if self.owned and isinstance(self._async, AsyncConnectionPool):
            pool, self._async = self._async, None  # not used again, even if closing it is interrupted
            await pool.close()
        self.close()

    @contextmanager
    def _connection(self) -> Iterator[Connection[Any]]:
        try:
            with self._taken() as connection:
                yield connection
        except EXPLAINED as error:
            raise explain(error, self.schema, self._url) from error

    @contextmanager
    def _taken(self) -> Iterator[Connection[Any]]:
        source = self._sync or self._open_pool()
        if isinstance(source, Connection):
            yield source
            return
        if not isinstance(source, Pool):
            with source.connection() as connection:
                yield connection
            return
        # Not with the pool's context manager: it ends a transaction, and these connections never have one open.
        connection = source.take()
        try:
            yield connection
        except psycopg.Error as error:
            if server_changed(error, connection):
                source.renew()
            raise
        finally:
            source.give(connection)

    @asynccontextmanager
    async def _aconnection(self) -> AsyncIterator[AsyncConnection[Any]]:
        try:
            async with self._ataken() as connection:
                yield connection
        except EXPLAINED as error:
            raise explain(error, self.schema, self._url) from error

    @asynccontextmanager
    async def _ataken(self) -> AsyncIterator[AsyncConnection[Any]]:
        if self.owned and self._loop is not asyncio.get_running_loop():
            # A pool belongs to its event loop: calling asyncio.run twice needs two pools.
            self._async, self._loop, self._opening = None, asyncio.get_running_loop(), asyncio.Lock()
        if self._async is None:
            began = time.monotonic()
            async with self._opening:
                self._raise_failure_since(began)
                self._async = self._async or await self._aopen_pool()
        source = self._async
        if isinstance(source, AsyncConnection):
            yield source
            return
        if not isinstance(source, AsyncPool):
            async with source.connection() as connection:
                yield connection
            return
        connection = await source.take()
        try:
            yield connection
        except psycopg.Error as error:
            if server_changed(error, connection):
                await source.renew()
            raise
        finally:
            await source.give(connection)

    def _open_pool(self) -> ConnectionPool[Any]:
        if not self.owned:
            raise InvalidArgument("this queue was given an async connection; use the async methods, such as aclaim")
        url = self._checked_url()
        with self._lock:
            if isinstance(self._sync, ConnectionPool):
                return self._sync
            pool = Pool(url, self._pool_size, self.limits)
            pool.open()
            # Also at exit: the interpreter would wait for the threads of an open pool.
            self._close_pool = weakref.finalize(self, pool.close)
            self._sync = pool
            return pool

    async def _aopen_pool(self) -> AsyncConnectionPool[Any]:
        if not self.owned:
            raise InvalidArgument("this queue was given a sync connection; use the sync methods, such as claim")
        url = await asyncio.to_thread(self._checked_url)
        pool = AsyncPool(url, self._pool_size, self.limits)
        await pool.open()
        return pool

    def _checked_url(self) -> str:
        """The URL, after connecting and checking the schema. The schema of the embedded server is migrated."""
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

    def _check(self, target: Target) -> str:
        if target.embedded:
            self.embedded = True
            migrate(target.url, self.schema)
            return target.url
        try:
            with connect(target.url, self.limits.connect) as connection:
                check_schema(connection, self.schema)
                return with_needed_settings(target.url, connection)
        except psycopg.OperationalError as error:  # lost, or no answer
            raise unreachable(error, target.url) from None

    def _raise_failure_since(self, moment: float) -> None:
        """Callers that waited while another one tried to connect do not try again, one after the other."""
        if self._url is None and self._failed is not None and self._failed[0] > moment:
            raise DatabaseUnreachable(str(self._failed[1]), self._failed[1].summary)

    def _pins(self, queries: Sequence[Query[Any]]) -> bool:
        """A search path of the caller's connection is never changed."""
        return self.owned and any(query.pinned for query in queries)


def _receive_nothing(seconds: float) -> Iterator[tuple[str, str]]:
    time.sleep(min(seconds, 0.1))
    return iter(())
