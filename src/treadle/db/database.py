"""Runs queries: over our own pools, or on a connection or pool of the caller.

On our own pools every statement is its own transaction. On a caller's connection nothing is committed or rolled back:
the queue's writes are part of the caller's transaction.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from itertools import count
from types import FunctionType
from typing import Any, TypeAlias

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from treadle.db.borrowed import Borrowable, borrow
from treadle.db.given import AsyncGiven, Given
from treadle.db.own_connection import limited
from treadle.db.pooled import Pooled
from treadle.db.pools import Limits, chosen_limits
from treadle.db.query import Query, Result
from treadle.db.reconnecting import REFUSED, UNAVAILABLE, reconnect_delay
from treadle.db.runner import arun, run
from treadle.db.transport import Receive, Transport
from treadle.db.url import Target
from treadle.settings import chosen_schema
from treadle.words.connections import DEFAULT, Connections
from treadle.words.errors import DatabaseUnreachable, InvalidArgument
from treadle.words.interruption import uninterrupted

SyncSource: TypeAlias = Connection[Any] | ConnectionPool[Any]
AsyncSource: TypeAlias = AsyncConnection[Any] | AsyncConnectionPool[Any]
# A URL, or a function that returns it when it is first needed; or a connection or pool of the caller.
Source: TypeAlias = str | Callable[[], str] | SyncSource | AsyncSource | Borrowable

# A connection with an open transaction.
Transaction: TypeAlias = Connection[Any]
AsyncTransaction: TypeAlias = AsyncConnection[Any]

# How many seconds persist() retries when the connection breaks.
RETRY_SECONDS = 30.0
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
        connections: Connections = DEFAULT,
    ) -> None:
        self.schema = chosen_schema(schema)
        self.limits = chosen_limits(connections)
        self.origin = _transport(source, self.schema, connections, self.limits)
        """Where connections come from."""
        self.transport: Transport = self.origin
        """What queries go through: the origin, unless treadle.testing has put something in between."""

    @property
    def owned(self) -> bool:
        """Whether its connections are our own."""
        return self.origin.owned

    @property
    def embedded(self) -> bool:
        return self.origin.embedded

    def run(self, query: Query[Result]) -> Result:
        (result,) = self.run_together((query,))
        return result

    def run_together(self, queries: Sequence[Query[Result]]) -> list[Result]:
        """Run all of them or none: in the caller's transaction if one is open, else in a transaction of their own."""
        with uninterrupted():
            return self.transport.run_together(queries)

    def run_in(self, transaction: Transaction, query: Query[Result]) -> Result:
        """Run it inside a transaction() of this database."""
        with uninterrupted(), limited(transaction, self.limits.answer):
            return run(transaction, query, self.schema)

    async def arun_in(self, transaction: AsyncTransaction, query: Query[Result]) -> Result:
        with limited(transaction, self.limits.answer):
            return await arun(transaction, query, self.schema)

    async def arun(self, query: Query[Result]) -> Result:
        (result,) = await self.transport.arun_together((query,))
        return result

    async def arun_together(self, queries: Sequence[Query[Result]]) -> list[Result]:
        return await self.transport.arun_together(queries)

    def persist(self, query: Query[Result]) -> Result:
        """Run it, and again for up to RETRY_SECONDS seconds if the connection breaks. Only for idempotent queries."""
        delays = self._delays()
        while True:
            try:
                return self.run(query)
            except (*UNAVAILABLE, DatabaseUnreachable) as error:
                if isinstance(error, REFUSED) or (delay := next(delays, None)) is None:
                    raise
                time.sleep(delay)

    async def apersist(self, query: Query[Result]) -> Result:
        delays = self._delays()
        while True:
            try:
                return await self.arun(query)
            except (*UNAVAILABLE, DatabaseUnreachable) as error:
                if isinstance(error, REFUSED) or (delay := next(delays, None)) is None:
                    raise
                await asyncio.sleep(delay)

    def _delays(self) -> Iterator[float]:
        """Before each further try of persist(). A connection of the caller's is not ours to repair."""
        end = time.monotonic() + RETRY_SECONDS
        for failures in count(1):
            if not self.owned or time.monotonic() > end:
                return
            yield reconnect_delay(failures)

    def read(self, query: Query[Result], seconds: float | None = None) -> Result:
        """Run a query that only shows something: in a read-only transaction, cancelled after `seconds`.
        None: after READ_SECONDS.

        Times that Python cannot represent are clamped to the first or the last that it can.
        """
        (result,) = self.read_together((query,), seconds)
        return result

    async def aread(self, query: Query[Result], seconds: float | None = None) -> Result:
        (result,) = await self.transport.aread_together((query,), READ_SECONDS if seconds is None else seconds)
        return result

    def read_together(self, queries: Sequence[Query[Result]], seconds: float | None = None) -> list[Result]:
        """Several reads in one transaction and with one snapshot, so that their results agree with each other."""
        with uninterrupted():
            return self.transport.read_together(queries, READ_SECONDS if seconds is None else seconds)

    async def aread_together(self, queries: Sequence[Query[Result]], seconds: float | None = None) -> list[Result]:
        return await self.transport.aread_together(queries, READ_SECONDS if seconds is None else seconds)

    def transaction(self) -> AbstractContextManager[Transaction]:
        """A connection with an open transaction: committed at the end, rolled back if something is raised."""
        return self.origin.transaction()

    def atransaction(self) -> AbstractAsyncContextManager[AsyncTransaction]:
        return self.origin.atransaction()

    @property
    def url(self) -> str:
        """The URL, after connecting and checking the schema: for callers that open connections themselves."""
        return self.origin.url

    @property
    def listen_url(self) -> str:
        """The URL for connections that listen, which must lead to PostgreSQL itself or to a pool in session mode."""
        return self.origin.listen_url

    @property
    def target(self) -> str:
        """The URL, without checking the schema. (The embedded server is started and migrated.)"""
        return self.origin.target

    def migrate(self) -> Target:
        """Bring the schema up to date, and return which database it is in."""
        return self.origin.migrate()

    def use(self, url: str) -> None:
        """Use this URL, which another process has already connected to and checked."""
        self.origin.use(url)

    @contextmanager
    def listening(self, *kinds: str) -> Iterator[Receive]:
        """Listen on a connection of its own. Yields a function that waits up to the given number of seconds for a
        notification and yields its kind and its payload."""
        if self.owned:
            with self.origin.listening(*kinds) as receive:
                yield receive
        else:
            yield _receive_nothing

    def close(self) -> None:
        """Close the sync pool if it is ours. The async pool needs aclose()."""
        self.origin.close()

    async def aclose(self) -> None:
        await self.origin.aclose()


def _transport(source: Source | None, schema: str, connections: Connections, limits: Limits) -> Transport:
    if source is None or isinstance(source, str | FunctionType):
        return Pooled(source, schema, connections, limits)
    if isinstance(source, Connection | ConnectionPool):
        return Given(source, schema)
    if isinstance(source, AsyncConnection | AsyncConnectionPool):
        return AsyncGiven(source, schema)
    borrowed = borrow(source, schema)
    if borrowed is None:
        raise InvalidArgument(
            "expected a URL, a psycopg connection or pool, or a connection of asyncpg, SQLAlchemy or "
            f"Django, got {type(source).__name__}"
        )
    return borrowed


def _receive_nothing(seconds: float) -> Iterator[tuple[str, str]]:
    time.sleep(min(seconds, 0.1))
    return iter(())
