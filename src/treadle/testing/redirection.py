"""Makes an application use another database: all of its parts, however they were imported.

They all share one Database, so its state is exchanged, and given back in the end. Nothing in the application has to be
written for it.

Async calls run on the sync connections, too. A pool belongs to its event loop, and most async tests have one each: they
would leave as many pools behind. It also lets async handlers share the one connection of a test that is rolled back.
Only `async with job.atransaction()` needs an async connection, and opens a pool.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any

from treadle.app import Treadle
from treadle.db.database import READ_SECONDS, Database, Source
from treadle.db.query import Query, Result, TestSchema
from treadle.testing.calling_thread import CallingThread

# The functions after which a job may be due that was not before.
_MAKE_DUE = re.compile(
    r"treadle\.(enqueue\w*|operate\w*|retry_\w+|resume|send_signal|close_workflow"
    r"|complete_jobs?|fail_job|cancel_job|release_job|put_schedule|set_limit|reset_limit)\("
)
# What runs after each write of the application, for inline mode.
After = Callable[[], None]
AsyncAfter = Callable[[], Awaitable[None]]

calling_thread: ContextVar[CallingThread | None] = ContextVar("treadle_calling_thread", default=None)
"""In a sync drain: the thread on which everything sync runs."""


class Redirection:
    """Of an application to a URL, or to a connection of the test."""

    def __init__(self, app: Treadle, source: Source) -> None:
        self._app = app
        self._database = app.database
        self._former = dict(vars(app.database))
        self._after: tuple[After, AsyncAfter] | None = None
        state = vars(Database(source, TestSchema(app.schema)))
        self.is_async: bool = state["_async"] is not None or (
            state["_aborrowed"] is not None and state["_borrowed"] is None  # that of Django can do both
        )
        """The test's connection is an async one, so that nothing sync can use it."""
        self._set(state)
        if not self.is_async:
            # On the object: they hide the methods of its class.
            state = vars(app.database)
            state.update(run_together=self._run_together, arun_together=self._arun_together)
            state.update(aread_together=self._aread_together)
        # A connection that the application has for its calls stays, as that of Django, which has the test's database.
        self._calls = app.backend.database
        if self._calls is not app.database:
            vars(self._calls).update(run_together=self._call_together, arun_together=self._acall_together)

    def restore(self) -> None:
        self._set(self._former)
        if self._calls is not self._database:
            del vars(self._calls)["run_together"], vars(self._calls)["arun_together"]

    def follow(self, after: After, aafter: AsyncAfter) -> None:
        """Call one of them after each write of the application that may make a job due."""
        self._after = after, aafter

    def unfollow(self) -> None:
        self._after = None

    def run(self, query: Query[Result]) -> Result:
        """Run a query of the test itself."""
        (result,) = Database.run_together(self._database, (query,))
        return result

    async def arun(self, query: Query[Result]) -> Result:
        if self.is_async:
            (result,) = await Database.arun_together(self._database, (query,))
            return result
        found: Result = await _on_sync_thread(self.run, query)
        return found

    def _call_together(self, queries: Sequence[Query[Any]]) -> list[Any]:
        results = Database.run_together(self._calls, queries)
        if self._after is not None and _may_make_due(queries):
            self._after[0]()
        return results

    async def _acall_together(self, queries: Sequence[Query[Any]]) -> list[Any]:
        results = await Database.arun_together(self._calls, queries)
        if self._after is not None and _may_make_due(queries):
            await self._after[1]()
        return results

    def _run_together(self, queries: Sequence[Query[Any]]) -> list[Any]:
        results = Database.run_together(self._database, queries)
        if self._after is not None and _may_make_due(queries):
            self._after[0]()
        return results

    async def _arun_together(self, queries: Sequence[Query[Any]]) -> list[Any]:
        results: list[Any] = await _on_sync_thread(Database.run_together, self._database, queries)
        if self._after is not None and _may_make_due(queries):
            await self._after[1]()
        return results

    async def _aread_together(self, queries: Sequence[Query[Any]], seconds: float = READ_SECONDS) -> list[Any]:
        results: list[Any] = await _on_sync_thread(Database.read_together, self._database, queries, seconds)
        return results

    def _set(self, state: dict[str, Any]) -> None:
        self._app.watch.close()
        vars(self._database).clear()
        vars(self._database).update(state)


def _may_make_due(queries: Sequence[Query[Any]]) -> bool:
    return any(_MAKE_DUE.search(query.text) for query in queries)


async def _on_sync_thread(function: Callable[..., Any], *args: Any) -> Any:
    caller = calling_thread.get()
    if caller is None:
        return await asyncio.to_thread(function, *args)
    return await asyncio.get_running_loop().run_in_executor(caller, lambda: function(*args))
