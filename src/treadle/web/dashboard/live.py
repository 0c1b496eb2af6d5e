"""What open pages are told: one task looks for all of them, and none when nobody looks.

A hundred pages cost what one costs: each second one look at all jobs that are open somewhere, each other second one at
the whole queue.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple
from uuid import UUID

from treadle.app import Treadle
from treadle.db.database import DatabaseError
from treadle.db.queries import events as event_queries
from treadle.db.queries import logs as log_queries
from treadle.db.queries import overview as looks
from treadle.db.queries import snapshots as snapshot_queries
from treadle.operations.overview import STEPS, aoverview
from treadle.words.errors import TreadleError
from treadle.words.overview import Overview
from treadle.words.record import LogLine, RecordedEvent
from treadle.words.snapshot import JobSnapshot

log = logging.getLogger("treadle")

JOB_SECONDS = 1.0
# The queue is looked at each so-manieth time.
OVERVIEW_EVERY = 2
AWAY_SECONDS = 2.0
# Of the running jobs, on the overview.
RUNNING = 20
# New lines of one job at once: more than anybody reads in a second.
NEWEST = 200
# A page that takes nothing for so many looks is let go, and comes back.
PATIENCE = 30


class JobNews(NamedTuple):
    seen: JobSnapshot
    events: list[RecordedEvent]
    logs: list[LogLine]
    cursor: str = ""
    """Of the page that hears it: to go on from there."""


class Glance(NamedTuple):
    seen: Overview
    """With the spans of the window that was asked for."""
    running: list[JobSnapshot]
    more: bool
    """More are running."""


class Away(NamedTuple):
    """The database cannot be reached."""


class Gone(NamedTuple):
    """There is no such job any more."""


class JobPage:
    """One that is open; how far it has come in the job's events and log lines."""

    def __init__(self, job_id: UUID, event: int, line: int) -> None:
        self.job_id = job_id
        self.event = event
        self.line = line
        self.inbox: asyncio.Queue[JobNews | Away | Gone | None] = asyncio.Queue(PATIENCE)

    def tell(self, news: JobNews | Away | Gone) -> None:
        if isinstance(news, JobNews):
            events = [each for each in news.events if (each.number or 0) > self.event]
            logs = [each for each in news.logs if each.number > self.line]
            self.event = max([self.event, *(each.number or 0 for each in events)])
            self.line = max([self.line, *(each.number for each in logs)])
            news = JobNews(news.seen, events, logs, f"{self.event}.{self.line}")
        _put(self.inbox, news)


class OverviewPage:
    def __init__(self, window: int) -> None:
        self.window = window
        self.inbox: asyncio.Queue[Glance | Away | None] = asyncio.Queue(PATIENCE)


class Live:
    """The looks of one process."""

    def __init__(self, app: Treadle) -> None:
        self._app = app
        self._jobs: set[JobPage] = set()
        self._overviews: set[OverviewPage] = set()
        self._task: asyncio.Task[None] | None = None
        self._turn = 0

    async def job(self, page: JobPage) -> AsyncGenerator[JobNews | Away | Gone, None]:
        """Until the job has ended."""
        self._jobs.add(page)
        self._begin()
        try:
            while (news := await page.inbox.get()) is not None:
                yield news
                if isinstance(news, Gone) or (isinstance(news, JobNews) and news.seen.status.finished):
                    return
        finally:
            self._jobs.discard(page)

    async def overview(self, page: OverviewPage) -> AsyncGenerator[Glance | Away, None]:
        self._overviews.add(page)
        self._begin()
        try:
            while (news := await page.inbox.get()) is not None:
                yield news
        finally:
            self._overviews.discard(page)

    async def glance(self, window: int) -> Glance:
        """As a page begins."""
        seen = await aoverview(self._app, window)
        return Glance(seen, *await self._running())

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._turn = 0
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        away = False
        while self._jobs or self._overviews:
            try:
                await self._look()
            except Exception as error:  # whatever it is: other pages must not wait for ever because of one
                if not away:
                    known = isinstance(error, TreadleError | DatabaseError | OSError)
                    log.warning("the dashboard cannot look: %s", error, exc_info=not known)
                away = True
                for page in self._jobs:
                    _put(page.inbox, Away())
                for each in self._overviews:
                    _put(each.inbox, Away())
                await asyncio.sleep(AWAY_SECONDS)
            else:
                away = False
                await asyncio.sleep(JOB_SECONDS)
        self._task = None

    async def _look(self) -> None:
        turn, self._turn = self._turn, self._turn + 1
        if self._jobs:
            await self._look_at_jobs(list(self._jobs))
        if self._overviews and turn % OVERVIEW_EVERY == 0:
            await self._look_at_all(list(self._overviews))

    async def _look_at_jobs(self, pages: list[JobPage]) -> None:
        alook = self._app.database.alook
        ids = list({page.job_id for page in pages})
        seen = {each.id: each for each in await alook(snapshot_queries.find_snapshots(ids))}
        # The lines after the look at the job: once it has ended, all of them are there.
        read: dict[UUID, int] = {}
        told: dict[UUID, int] = {}
        for page in pages:
            if page.job_id in seen:
                read[page.job_id] = min(page.line, read.get(page.job_id, page.line))
                if page.event < seen[page.job_id].events_count:
                    told[page.job_id] = min(page.event, told.get(page.job_id, page.event))
        events: dict[UUID, list[RecordedEvent]] = {}
        if told:
            for event in await alook(event_queries.find_newest_events(told, NEWEST)):
                events.setdefault(event.job_id, []).append(event)
        logs = await alook(log_queries.find_newest_logs(read, NEWEST)) if read else {}
        for page in pages:
            job = seen.get(page.job_id)
            page.tell(Gone() if job is None else JobNews(job, events.get(job.id, []), logs.get(job.id, [])))

    async def _look_at_all(self, pages: list[OverviewPage]) -> None:
        windows = {page.window for page in pages}
        first = min(windows)
        seen = {first: await aoverview(self._app, first)}
        for window in windows - {first}:
            # Only the charts are others.
            chart = await self._app.database.alook(looks.get_throughput(window, STEPS[window]))
            seen[window] = seen[first]._replace(spans=chart.spans, step=chart.step)
        running, more = await self._running()
        glances = {window: Glance(each, running, more) for window, each in seen.items()}
        for page in pages:
            _put(page.inbox, glances[page.window])

    async def _running(self) -> tuple[list[JobSnapshot], bool]:
        found = await self._app.database.alook(snapshot_queries.find_snapshots([], RUNNING + 1))
        found.sort(key=lambda each: (each.started_at is None, each.started_at))
        return found[:RUNNING], len(found) > RUNNING


def _put(inbox: asyncio.Queue[Any], news: object) -> None:
    """A page that does not keep up is let go."""
    if inbox.full():
        while not inbox.empty():
            inbox.get_nowait()
        inbox.put_nowait(None)
    else:
        inbox.put_nowait(news)
