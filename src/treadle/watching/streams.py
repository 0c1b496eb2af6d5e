"""Streams of events: first the stored ones, then new ones, without gaps or repeats, even if the connection is lost.

Each stream is a script (db/script.py): it yields queries, requests to listen, wait and sleep, and events as items. A
Stream runs it, with `for` or with `async for`. updates.py and snapshots.py stream other things in the same way.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar
from uuid import UUID

from treadle.db.database import Database, DatabaseError
from treadle.db.queries import events as event_queries
from treadle.db.query import Query
from treadle.db.reconnecting import REFUSED, reconnect_delay
from treadle.db.script import Request, aiterate, iterate
from treadle.watching.watch import ANY, Watch
from treadle.words.errors import DatabaseUnreachable
from treadle.words.event_loop import refuse_to_wait
from treadle.words.record import RecordedEvent

BATCH = 1000
# On a caller's connection there are no notifications.
POLL_SECONDS = 0.2
# How often to query without a notification: events stay hidden until all older transactions have ended.
ALL_EVENTS_SECONDS = 0.5

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Listen(Request):
    """Take note of changes from now on."""


@dataclass(frozen=True, slots=True)
class Wait(Request):
    """Wait until something has changed since Listen."""


@dataclass(frozen=True, slots=True)
class Sleep(Request):
    seconds: float


Script: TypeAlias = Generator[Query[Any] | Request | Item, Any, None]


class Stream(Generic[Item]):
    """Items, one after the other: `for item in …` or `async for item in …`.

    `timeout` is how long it waits at most for a notification before it queries again; None: without limit.
    `unavailable` is called with True when the database becomes unavailable, and with False when it is back.
    """

    def __init__(
        self,
        database: Database,
        watch: Watch,
        script: Callable[[], Script[Item]],
        watched: Sequence[UUID],
        timeout: float | None,
        unavailable: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._watch = watch
        self._script = script
        self._watched = watched
        self._timeout = timeout if database.owned else POLL_SECONDS
        self._unavailable = unavailable

    def __iter__(self) -> Iterator[Item]:
        with closing(self._runner()) as runner:
            yield from iterate(self._script(), runner.run)

    async def __aiter__(self) -> AsyncGenerator[Item, None]:
        with closing(self._runner()) as runner:
            async with aclosing(aiterate(self._script(), runner.arun)) as items:
                async for item in items:
                    yield item

    def _runner(self) -> "_Runner":
        return _Runner(self._database, self._watch, self._watched, self._timeout, self._unavailable)


class _Runner:
    """Carries out the requests of one iteration."""

    def __init__(
        self,
        database: Database,
        watch: Watch,
        watched: Sequence[UUID],
        timeout: float | None,
        unavailable: Callable[[bool], None],
    ) -> None:
        self._database = database
        self._watch = watch
        self._watched = watched
        self._timeout = timeout
        self._unavailable = unavailable
        self._changed: Future[None] | None = None

    def run(self, request: Query[Any] | Request) -> Any:
        match request:
            case Query():
                return self._query(request)
            case Listen():
                self._listen()
            case Wait():
                refuse_to_wait("async for, or follow=False")
                self._wait()
            case Sleep(seconds):
                time.sleep(seconds)
        return None

    async def arun(self, request: Query[Any] | Request) -> Any:
        match request:
            case Query():
                return await self._aquery(request)
            case Listen():
                self._listen()
            case Wait():
                await self._await()
            case Sleep(seconds):
                await asyncio.sleep(seconds)
        return None

    def close(self) -> None:
        if self._changed is not None:
            for job_id in self._watched:
                self._watch.forget(job_id, self._changed)

    def _listen(self) -> None:
        self.close()
        self._changed = self._watch.changed(*self._watched)

    def _wait(self) -> None:
        if self._changed is not None:
            with suppress(TimeoutError):
                self._changed.result(self._timeout)

    async def _await(self) -> None:
        if self._changed is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timeout):
                    await asyncio.wrap_future(self._changed)

    def _query(self, query: Query[Any]) -> Any:
        """Retries for as long as the database is unavailable."""
        failures = 0
        while True:
            try:
                result = self._database.run(query)
            except REFUSED:
                raise
            except (DatabaseError, DatabaseUnreachable, OSError):
                if not self._database.owned:  # only the caller can repair the caller's transaction
                    raise
                failures += 1
                if failures == 1:
                    self._unavailable(True)
                time.sleep(reconnect_delay(failures))
            else:
                if failures:
                    self._unavailable(False)
                return result

    async def _aquery(self, query: Query[Any]) -> Any:
        failures = 0
        while True:
            try:
                result = await self._database.arun(query)
            except REFUSED:
                raise
            except (DatabaseError, DatabaseUnreachable, OSError):
                if not self._database.owned:
                    raise
                failures += 1
                if failures == 1:
                    self._unavailable(True)
                await asyncio.sleep(reconnect_delay(failures))
            else:
                if failures:
                    self._unavailable(False)
                return result


def all_events(
    database: Database,
    watch: Watch,
    types: Sequence[str] | None,
    names: Sequence[str] | None,
    after: str | None,
    follow: bool,
) -> Stream[RecordedEvent]:
    """The events of all jobs, optionally of some job types and names, after a cursor."""
    cursor = event_queries.Cursor.read(after)
    return Stream(database, watch, lambda: _all_events(types, names, cursor, follow), [ANY], ALL_EVENTS_SECONDS)


def _all_events(
    types: Sequence[str] | None, names: Sequence[str] | None, cursor: event_queries.Cursor, follow: bool
) -> Script[RecordedEvent]:
    while True:
        if follow:
            yield Listen()
        page: event_queries.Page = yield event_queries.find_all_events(cursor, types, names, BATCH)
        cursor = page.reached
        yield from page.events
        if not page.full:
            if not follow:
                return
            yield Wait()
