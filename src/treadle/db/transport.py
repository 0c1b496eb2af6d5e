"""How a Database reaches PostgreSQL: over our pools (pooled.py), over a connection or pool of psycopg that the caller
has given (given.py), or over a connection of another library (borrowed.py)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from typing import Any, NoReturn, TypeAlias

import psycopg
from psycopg import AsyncConnection, Connection

from treadle.db import screen_limits
from treadle.db.explaining import EXPLAINED, explain, in_time, locked_in_time
from treadle.db.function_settings import PINNED_LOCALLY
from treadle.db.own_connection import limited
from treadle.db.query import Query, Result
from treadle.db.runner import apeek_together, arun_together, needs_transaction, peek_together, run
from treadle.db.url import Target
from treadle.words.errors import InvalidArgument

Receive: TypeAlias = Callable[[float], Iterator[tuple[str, str]]]

# After the caller's own statements, which may have set a role or a search path: others use the connection next. What a
# transaction has set is undone if it is rolled back, not if it commits.
AS_OPENED = b"reset role; reset session authorization; reset all"


class Transport:
    """What it cannot do raises InvalidArgument. Of queries that run together, all take effect or none."""

    owned = False
    """Whether it is ours: then it can open connections, and repair them."""
    embedded = False
    is_async = False
    """Whether nothing sync can use it."""
    has_thread = False
    """Whether it is another connection on each thread."""
    schema: str

    def run_together(self, queries: Sequence[Query[Result]]) -> list[Result]:
        raise InvalidArgument("this queue was given an async connection; use the async methods, such as aclaim")

    async def arun_together(self, queries: Sequence[Query[Result]]) -> list[Result]:
        raise InvalidArgument("this queue was given a sync connection; use the sync methods, such as claim")

    def read_together(self, queries: Sequence[Query[Result]], seconds: float) -> list[Result]:
        """In a transaction that is read-only, and cancelled after so many seconds, if the library can do that."""
        return self.run_together(queries)

    async def aread_together(self, queries: Sequence[Query[Result]], seconds: float) -> list[Result]:
        return await self.arun_together(queries)

    async def on_its_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a sync function that uses it."""
        return await asyncio.to_thread(function, *args)

    def taken(self) -> AbstractContextManager[Connection[Any]]:
        """A connection of psycopg, for as long as the block runs."""
        _needs_url()

    def ataken(self) -> AbstractAsyncContextManager[AsyncConnection[Any]]:
        _needs_url()

    @contextmanager
    def transaction(self) -> Iterator[Connection[Any]]:
        # Errors are not explained, and time is not limited: what runs inside the block is the caller's own statement.
        with self.taken() as connection:
            with connection.transaction(), limited(connection, None):
                yield connection
            if self.owned:
                try:
                    connection.execute(AS_OPENED)
                except psycopg.Error:  # it has committed
                    connection.close()

    @asynccontextmanager
    async def atransaction(self) -> AsyncIterator[AsyncConnection[Any]]:
        async with self.ataken() as connection:
            async with connection.transaction():
                with limited(connection, None):
                    yield connection
            if self.owned:
                try:
                    await connection.execute(AS_OPENED)
                except psycopg.Error:
                    await connection.close()

    @property
    def url(self) -> str:
        _needs_url()

    @property
    def target(self) -> str:
        return self.url

    @property
    def listen_url(self) -> str:
        return self.url

    def listening(self, *kinds: str) -> AbstractContextManager[Receive]:
        _needs_url()

    def migrate(self) -> Target:
        _needs_url()

    def use(self, url: str) -> None:
        """Only a transport of our own can."""

    def close(self) -> None:
        """Close what we have opened."""

    async def aclose(self) -> None:
        self.close()


class Driver(Transport):
    """Over psycopg."""

    def run_together(self, queries: Sequence[Query[Result]]) -> list[Result]:
        with self._connection() as connection:
            with connection.transaction() if needs_transaction(connection, queries) else nullcontext():
                if self._pins(queries):
                    connection.execute(PINNED_LOCALLY)
                return [run(connection, query, self.schema) for query in queries]

    async def arun_together(self, queries: Sequence[Query[Result]]) -> list[Result]:
        brief = screen_limits.current() if self.owned else None
        with locked_in_time(brief is not None):
            async with self._aconnection() as connection:
                return await arun_together(connection, queries, self.schema, self._pins(queries), brief)

    def read_together(self, queries: Sequence[Query[Result]], seconds: float) -> list[Result]:
        with in_time(), self._connection() as connection:
            return peek_together(connection, queries, seconds, self.schema)

    async def aread_together(self, queries: Sequence[Query[Result]], seconds: float) -> list[Result]:
        with in_time():
            async with self._aconnection() as connection:
                return await apeek_together(connection, queries, seconds, self.schema)

    @property
    def known_url(self) -> str | None:
        """For messages."""
        return None

    @contextmanager
    def _connection(self) -> Iterator[Connection[Any]]:
        try:
            with self.taken() as connection:
                yield connection
        except EXPLAINED as error:
            raise explain(error, self.schema, self.known_url) from error

    @asynccontextmanager
    async def _aconnection(self) -> AsyncIterator[AsyncConnection[Any]]:
        try:
            async with self.ataken() as connection:
                yield connection
        except EXPLAINED as error:
            raise explain(error, self.schema, self.known_url) from error

    def _pins(self, queries: Sequence[Query[Any]]) -> bool:
        """A search path of the caller's connection is never changed."""
        return self.owned and any(query.pinned for query in queries)


def _needs_url() -> NoReturn:
    raise InvalidArgument("this needs a database URL: your connection or pool cannot open another connection")
