"""Makes an application use another database: all of its parts, however they were imported.

They all share one Database, whose connections are exchanged, and given back in the end. Nothing in the application has
to be written for it.

Async calls run on the sync connections, too. A pool belongs to its event loop, and most async tests have one each: they
would leave as many pools behind. It also lets async handlers share the one connection of a test that is rolled back.
Only `async with job.atransaction()` needs an async connection, and opens a pool.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from treadle.app.treadle import Treadle
from treadle.db.database import Database, Source
from treadle.db.query import Query, Result, TestSchema
from treadle.db.transport import Transport
from treadle.words.event_loop import calling_thread

# What runs after each write of the application, for inline mode.
After = Callable[[], None]
AsyncAfter = Callable[[], Awaitable[None]]


class Followers:
    """What follows each write that may make a job due."""

    def __init__(self) -> None:
        self.after: tuple[After, AsyncAfter] | None = None

    def wrote(self, queries: Sequence[Query[Any]]) -> None:
        if self.after is not None and any(query.makes_due for query in queries):
            self.after[0]()

    async def awrote(self, queries: Sequence[Query[Any]]) -> None:
        if self.after is not None and any(query.makes_due for query in queries):
            await self.after[1]()


class Followed(Transport):
    """Of a connection that the application has for its calls, such as Django's, which has the test's database."""

    def __init__(self, origin: Transport, followers: Followers) -> None:
        self.origin, self.followers = origin, followers

    def run_together(self, queries: Sequence[Query[Result]]) -> list[Result]:
        results = self.origin.run_together(queries)
        self.followers.wrote(queries)
        return results

    async def arun_together(self, queries: Sequence[Query[Result]]) -> list[Result]:
        if calling_thread.get() is not None and not self.origin.is_async:
            results: list[Result] = await _on_sync_thread(self.origin, self.origin.run_together, queries)
        else:
            results = await self.origin.arun_together(queries)
        await self.followers.awrote(queries)
        return results

    def read_together(self, queries: Sequence[Query[Result]], seconds: float) -> list[Result]:
        return self.origin.read_together(queries, seconds)

    async def aread_together(self, queries: Sequence[Query[Result]], seconds: float) -> list[Result]:
        return await self.origin.aread_together(queries, seconds)


class OnSyncConnections(Followed):
    async def arun_together(self, queries: Sequence[Query[Result]]) -> list[Result]:
        results: list[Result] = await _on_sync_thread(self.origin, self.origin.run_together, queries)
        await self.followers.awrote(queries)
        return results

    async def aread_together(self, queries: Sequence[Query[Result]], seconds: float) -> list[Result]:
        results: list[Result] = await _on_sync_thread(self.origin, self.origin.read_together, queries, seconds)
        return results


class Redirection:
    """Of an application to a URL, or to a connection of the test."""

    def __init__(self, app: Treadle, source: Source) -> None:
        self._app, self._database, self._calls = app, app.database, app.backend.database
        self._former = app.database.schema, app.database.origin
        self._followers = Followers()
        made = Database(source, TestSchema(app.schema))
        self._origin = made.origin
        self._use(made.schema, made.origin)
        if not self.is_async:
            app.database.transport = OnSyncConnections(made.origin, self._followers)
        if self._calls is not app.database:
            self._calls.transport = Followed(self._calls.origin, self._followers)

    def restore(self) -> None:
        self._use(*self._former)
        self._calls.transport = self._calls.origin

    @property
    def is_async(self) -> bool:
        """The test's connection is an async one, so that nothing sync can use it."""
        return self._origin.is_async

    def follow(self, after: After, aafter: AsyncAfter) -> None:
        """Call one of them after each write of the application that may make a job due."""
        self._followers.after = after, aafter

    def unfollow(self) -> None:
        self._followers.after = None

    def run(self, query: Query[Result]) -> Result:
        """Run a query of the test itself."""
        (result,) = self._origin.run_together((query,))
        return result

    async def arun(self, query: Query[Result]) -> Result:
        if self.is_async:
            (result,) = await self._origin.arun_together((query,))
            return result
        found: Result = await _on_sync_thread(self._origin, self.run, query)
        return found

    async def acall(self, function: Callable[[], Result]) -> Result:
        """Call a sync function on the thread that has the connection of the test."""
        found: Result = await self._origin.on_its_thread(function)
        return found

    @property
    def has_thread(self) -> bool:
        """Whether the test's connection is another one on each thread, as Django's is."""
        return self._origin.has_thread

    def _use(self, schema: str, origin: Transport) -> None:
        self._app.watch.close()
        self._database.schema, self._database.origin, self._database.transport = schema, origin, origin


async def _on_sync_thread(origin: Transport, function: Callable[..., Any], *args: Any) -> Any:
    caller = calling_thread.get()
    if caller is None:
        return await origin.on_its_thread(function, *args)
    return await asyncio.get_running_loop().run_in_executor(caller, lambda: function(*args))
