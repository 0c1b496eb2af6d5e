"""Streams of events: the stored past, then the live rest, with no gap and no repeat, also over a lost connection.

What to do is a generator that does no I/O: it asks for queries and waits, and hands out events. A Stream drives it,
with `for` or with `async for`. The same goes for the news of a job (news.py) and for how several jobs look (sight.py).
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from treadle.db.database import DatabaseError
from treadle.db.queries import events as event_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.query import Query
from treadle.db.reconnecting import REFUSED, reconnect_delay
from treadle.watching.watch import ANY
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


class Pause(NamedTuple):
    seconds: float


Item = TypeVar("Item")
# Whatever else it gives is handed out.
Script: TypeAlias = Generator[Ask | Pause | Query[Any] | Item, Any, None]


class Stream(Generic[Item]):
    """Events, one after the other. `for event in …` and `async for event in …`.

    `away` is told when the database is (True) and when it is back.
    """

    def __init__(
        self,
        app: "Treadle",
        script: Callable[[], Script[Item]],
        watched: Sequence[UUID],
        patience: float | None,
        away: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._app = app
        self._script = script
        self._watched = watched
        self._patience = patience if app.database.owned else POLL_SECONDS
        self._away = away

    def __iter__(self) -> Iterator[Item]:
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
                elif isinstance(asked, Pause):
                    time.sleep(asked.seconds)
                elif isinstance(asked, Query):
                    answer = self._run(asked)
                elif not isinstance(asked, Ask):
                    yield asked
        finally:
            self._forget(woken)

    async def __aiter__(self) -> AsyncGenerator[Item, None]:
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
                elif isinstance(asked, Pause):
                    await asyncio.sleep(asked.seconds)
                elif isinstance(asked, Query):
                    answer = await self._arun(asked)
                elif not isinstance(asked, Ask):
                    yield asked
        finally:
            self._forget(woken)

    def _listen(self, woken: "Future[None] | None") -> "Future[None]":
        self._forget(woken)
        return self._app.watch.change(*self._watched)

    def _forget(self, woken: "Future[None] | None") -> None:
        if woken is not None:
            for job_id in self._watched:
                self._app.watch.forget(job_id, woken)

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
                answer = self._app.database.run(query)
            except REFUSED:
                raise
            except (DatabaseError, DatabaseUnreachable, OSError):
                if not self._app.database.owned:  # the caller's transaction is the caller's to mend
                    raise
                failures += 1
                if failures == 1:
                    self._away(True)
                time.sleep(reconnect_delay(failures))
            else:
                if failures:
                    self._away(False)
                return answer

    async def _arun(self, query: Query[Any]) -> Any:
        failures = 0
        while True:
            try:
                answer = await self._app.database.arun(query)
            except REFUSED:
                raise
            except (DatabaseError, DatabaseUnreachable, OSError):
                if not self._app.database.owned:
                    raise
                failures += 1
                if failures == 1:
                    self._away(True)
                await asyncio.sleep(reconnect_delay(failures))
            else:
                if failures:
                    self._away(False)
                return answer


def job_events(app: "Treadle", job_id: UUID, after: int | str | None, follow: bool) -> Stream[RecordedEvent]:
    position = event_queries.Position.read(after)
    # Woken by its end and by what it tells; should that be missed, a look twice a second finds it.
    return Stream(app, lambda: _of_job(job_id, position, follow), [job_id], None)


def all_events(
    app: "Treadle", types: Sequence[str] | None, names: Sequence[str] | None, after: str | None, follow: bool
) -> Stream[RecordedEvent]:
    place = event_queries.Place.read(after)
    return Stream(app, lambda: _of_all(types, names, place, follow), [ANY], LOOK_SECONDS)


def _of_job(job_id: UUID, position: event_queries.Position, follow: bool) -> Script[RecordedEvent]:
    look = snapshot_queries.get_job_states([job_id])
    if not (yield look):
        raise JobNotFound(job_id)
    ended = False
    while True:
        # First listen, then look: what comes in between is not missed.
        if follow:
            yield Ask.LISTEN
        batch: list[RecordedEvent] = yield event_queries.find_job_events(job_id, position, BATCH)
        for event in batch:
            position = event_queries.Position.read(event.cursor)
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
    types: Sequence[str] | None, names: Sequence[str] | None, place: event_queries.Place, follow: bool
) -> Script[RecordedEvent]:
    while True:
        if follow:
            yield Ask.LISTEN
        page: event_queries.Page = yield event_queries.find_all_events(place, types, names, BATCH)
        place = page.reached
        yield from page.events
        if not page.full:
            if not follow:
                return
            yield Ask.WAIT
