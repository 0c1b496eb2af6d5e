"""Streams of events: the stored past, then the live rest, with no gap and no repeat, also over a lost connection.

What to do is a generator that does no I/O: it asks for queries and waits, and hands out events. A Stream drives it,
with `for` or with `async for`.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from treadle.app.watch import ANY
from treadle.db import telling
from treadle.db.database import DatabaseError
from treadle.db.line import REFUSED, pause
from treadle.db.query import Query
from treadle.words.errors import DatabaseUnreachable, JobNotFound
from treadle.words.record import RecordedEvent
from treadle.words.status import FINISHED

if TYPE_CHECKING:
    from treadle.app.treadle import Treadle

BATCH = 1000
# On a connection of the caller's nobody is woken.
POLL_SECONDS = 0.2
# All events are looked for this often, too: a transaction that held them up may have ended.
LOOK_SECONDS = 0.5


class Ask(Enum):
    LISTEN = "from here on, notice what comes"
    WAIT = "until something came"


Script: TypeAlias = Generator[Ask | Query[Any] | RecordedEvent, Any, None]


class Stream:
    """Events, one after the other. `for event in …` and `async for event in …`."""

    def __init__(self, app: "Treadle", script: Callable[[], Script], watched: UUID, patience: float | None) -> None:
        self._app = app
        self._script = script
        self._watched = watched
        self._patience = patience if app.database.owned else POLL_SECONDS

    def __iter__(self) -> Iterator[RecordedEvent]:
        script, woken, answer = self._script(), None, None
        try:
            while True:
                try:
                    asked = script.send(answer)
                except StopIteration:
                    return
                answer = None
                if asked is Ask.LISTEN:
                    woken = self._listen(woken)
                elif asked is Ask.WAIT and woken is not None:
                    self._wait(woken)
                elif isinstance(asked, Query):
                    answer = self._run(asked)
                elif isinstance(asked, RecordedEvent):
                    yield asked
        finally:
            self._forget(woken)

    async def __aiter__(self) -> AsyncIterator[RecordedEvent]:
        script, woken, answer = self._script(), None, None
        try:
            while True:
                try:
                    asked = script.send(answer)
                except StopIteration:
                    return
                answer = None
                if asked is Ask.LISTEN:
                    woken = self._listen(woken)
                elif asked is Ask.WAIT and woken is not None:
                    await self._await(woken)
                elif isinstance(asked, Query):
                    answer = await self._arun(asked)
                elif isinstance(asked, RecordedEvent):
                    yield asked
        finally:
            self._forget(woken)

    def _listen(self, woken: "Future[None] | None") -> "Future[None]":
        self._forget(woken)
        return self._app.watch.change(self._watched)

    def _forget(self, woken: "Future[None] | None") -> None:
        if woken is not None:
            self._app.watch.forget(self._watched, woken)

    def _wait(self, woken: "Future[None]") -> None:
        try:
            woken.result(self._patience)
        except TimeoutError:
            return

    async def _await(self, woken: "Future[None]") -> None:
        try:
            async with asyncio.timeout(self._patience):
                await asyncio.wrap_future(woken)
        except TimeoutError:
            return

    def _run(self, query: Query[Any]) -> Any:
        failures = 0
        while True:
            try:
                return self._app.database.run(query)
            except REFUSED:
                raise
            except (DatabaseError, DatabaseUnreachable, OSError):
                if not self._app.database.owned:  # the caller's transaction is the caller's to mend
                    raise
                failures += 1
                time.sleep(pause(failures))

    async def _arun(self, query: Query[Any]) -> Any:
        failures = 0
        while True:
            try:
                return await self._app.database.arun(query)
            except REFUSED:
                raise
            except (DatabaseError, DatabaseUnreachable, OSError):
                if not self._app.database.owned:
                    raise
                failures += 1
                await asyncio.sleep(pause(failures))


def job_events(app: "Treadle", job_id: UUID, after: int | str | None, follow: bool) -> Stream:
    position = telling.Position.read(after)
    # Woken by its end and by what it tells; should that be missed, a look twice a second finds it.
    return Stream(app, lambda: _of_job(app.schema, job_id, position, follow), job_id, None)


def all_events(
    app: "Treadle", types: Sequence[str] | None, names: Sequence[str] | None, after: str | None, follow: bool
) -> Stream:
    place = telling.Place.read(after)
    return Stream(app, lambda: _of_all(app.schema, types, names, place, follow), ANY, LOOK_SECONDS)


def _of_job(schema: str, job_id: UUID, position: telling.Position, follow: bool) -> Script:
    look = telling.look_at_jobs(schema, [job_id])
    if not (yield look):
        raise JobNotFound(job_id)
    ended = False
    while True:
        # First listen, then look: what comes in between is not missed.
        if follow:
            yield Ask.LISTEN
        batch: list[RecordedEvent] = yield telling.job_events(schema, job_id, position, BATCH)
        for event in batch:
            position = telling.Position.read(event.cursor)
            yield event
        if batch:
            continue
        if ended or not follow:
            return
        found = (yield look).get(job_id)
        # What it told last was written before its end, but maybe after the look above: look once more.
        ended = found is None or found.status in FINISHED
        if not ended:
            yield Ask.WAIT


def _of_all(
    schema: str, types: Sequence[str] | None, names: Sequence[str] | None, place: telling.Place, follow: bool
) -> Script:
    while True:
        if follow:
            yield Ask.LISTEN
        page: telling.Page = yield telling.all_events(schema, place, types, names, BATCH)
        place = page.reached
        yield from page.events
        if not page.full:
            if not follow:
                return
            yield Ask.WAIT
