"""Queries the database on behalf of all open pages.

One task serves every page, so that a hundred open pages cost as much as one: each second one query for all jobs that
are open on some page, and every 2 seconds one for the overview, one for each part of the lists of schedules and
limits that is open, and one for each workflow that is open. Without open pages, it does not run.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from treadle.app import Treadle
from treadle.db.database import DatabaseError
from treadle.db.queries import events as event_queries
from treadle.db.queries import limits as limit_queries
from treadle.db.queries import logs as log_queries
from treadle.db.queries import overview as overview_queries
from treadle.db.queries import schedules as schedule_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.operations.overview import STEPS, aoverview
from treadle.web.dashboard.pages.live_graphs import LiveGraphs
from treadle.words.errors import TreadleError
from treadle.words.graph import WORKFLOW, Graph
from treadle.words.limit_status import LimitStatus
from treadle.words.overview import Overview
from treadle.words.record import LogLine, RecordedEvent
from treadle.words.schedule_status import ScheduleList
from treadle.words.snapshot import JobSnapshot

log = logging.getLogger("treadle")

JOB_SECONDS = 1.0
# The overview, the schedules and the limits are queried in every second round.
OVERVIEW_EVERY = 2
RETRY_SECONDS = 2.0
# Running jobs that are listed on the overview.
MAX_RUNNING = 20
# Schedules on one page of their list.
SCHEDULES = 50
# Limits and keys of limits on one page.
LIMITS = 100
# New events and log lines of one job in one round. More than anyone reads in a second.
MAX_LINES = 200
# A page that does not take this many updates is disconnected. Its browser reconnects.
MAX_UNREAD = 30


class JobUpdate(NamedTuple):
    job: JobSnapshot
    events: list[RecordedEvent]
    logs: list[LogLine]
    cursor: str = ""
    """Where the page that receives it continues after a reconnect."""
    graph: Graph | None = None
    """Of a workflow: its graph, if the page does not have it yet."""


class OverviewUpdate(NamedTuple):
    overview: Overview
    """With the time spans of the requested window."""
    running: list[JobSnapshot]
    more: bool
    """More jobs are running than are listed."""


class ScheduleSelection(NamedTuple):
    """Which part of the list of schedules a page shows."""

    after: str | None = None
    search: str | None = None
    state: str | None = None


class LimitSelection(NamedTuple):
    """Which limits a page shows."""

    name: str | None = None
    """Only this one, with its keys."""
    key: str | None = None
    """The beginning of its keys."""
    search: str | None = None
    """A part of their name or job type."""


class Unavailable(NamedTuple):
    """The database cannot be queried at the moment."""


class Deleted(NamedTuple):
    """The job no longer exists."""


class JobPage:
    """An open page of a job, with the numbers of the last event and log line that it has."""

    def __init__(self, job_id: UUID, event: int, line: int) -> None:
        self.job_id = job_id
        self.event = event
        self.line = line
        self.graph: Graph | None = None
        self.inbox: asyncio.Queue[JobUpdate | Unavailable | Deleted | None] = asyncio.Queue(MAX_UNREAD)

    def send(self, update: JobUpdate | Unavailable | Deleted) -> None:
        """Leaves out the events, the log lines and the graph that the page has already."""
        if isinstance(update, JobUpdate):
            events = [each for each in update.events if (each.number or 0) > self.event]
            logs = [each for each in update.logs if each.number > self.line]
            self.event = max([self.event, *(each.number or 0 for each in events)])
            self.line = max([self.line, *(each.number for each in logs)])
            graph = None if update.graph is self.graph else update.graph
            self.graph = update.graph
            update = JobUpdate(update.job, events, logs, f"{self.event}.{self.line}", graph)
        _put(self.inbox, update)


class OverviewPage:
    def __init__(self, window: int) -> None:
        self.window = window
        self.inbox: asyncio.Queue[OverviewUpdate | Unavailable | None] = asyncio.Queue(MAX_UNREAD)


class SchedulesPage:
    def __init__(self, selection: ScheduleSelection) -> None:
        self.selection = selection
        self.inbox: asyncio.Queue[ScheduleList | Unavailable | None] = asyncio.Queue(MAX_UNREAD)


class LimitsPage:
    def __init__(self, selection: LimitSelection) -> None:
        self.selection = selection
        self.inbox: asyncio.Queue[list[LimitStatus] | Unavailable | None] = asyncio.Queue(MAX_UNREAD)


OpenPage = TypeVar("OpenPage")
Update = TypeVar("Update")


class LiveUpdates:
    """The task that queries for all open pages of this process."""

    def __init__(self, app: Treadle) -> None:
        self._app = app
        self._jobs: set[JobPage] = set()
        self._overviews: set[OverviewPage] = set()
        self._schedules: set[SchedulesPage] = set()
        self._limits: set[LimitsPage] = set()
        self._graphs = LiveGraphs(app)
        self._task: asyncio.Task[None] | None = None
        self._round = 0

    async def job(self, page: JobPage) -> AsyncGenerator[JobUpdate | Unavailable | Deleted, None]:
        """Updates until the job has finished."""
        self._jobs.add(page)
        self._start()
        try:
            while (update := await page.inbox.get()) is not None:
                yield update
                if isinstance(update, Deleted) or (isinstance(update, JobUpdate) and update.job.status.finished):
                    return
        finally:
            self._jobs.discard(page)

    def overview(self, page: OverviewPage) -> AsyncGenerator[OverviewUpdate | Unavailable, None]:
        return self._updates(page, self._overviews, page.inbox)

    def schedules(self, page: SchedulesPage) -> AsyncGenerator[ScheduleList | Unavailable, None]:
        return self._updates(page, self._schedules, page.inbox)

    def limits(self, page: LimitsPage) -> AsyncGenerator[list[LimitStatus] | Unavailable, None]:
        return self._updates(page, self._limits, page.inbox)

    async def _updates(
        self, page: OpenPage, pages: set[OpenPage], inbox: asyncio.Queue[Update | None]
    ) -> AsyncGenerator[Update, None]:
        pages.add(page)
        self._start()
        try:
            while (update := await inbox.get()) is not None:
                yield update
        finally:
            pages.discard(page)

    async def get_overview(self, window: int) -> OverviewUpdate:
        """For the first rendering of the page."""
        overview = await aoverview(self._app.database, window)
        return OverviewUpdate(overview, *await self._find_running())

    async def get_schedules(self, selection: ScheduleSelection) -> ScheduleList:
        query = schedule_queries.find_statuses(
            selection.after, SCHEDULES, search=selection.search, state=selection.state
        )
        return await self._app.database.aread(query)

    async def get_limits(self, selection: LimitSelection) -> list[LimitStatus]:
        query = limit_queries.find(selection.name, LIMITS, key=selection.key, search=selection.search)
        return await self._app.database.aread(query)

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._round = 0
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        failing = False
        while self._jobs or self._overviews or self._schedules or self._limits:
            try:
                await self._update_pages()
            except Exception as error:  # of any kind: a bug for one page must not stop the updates of all others
                if not failing:
                    expected = isinstance(error, TreadleError | DatabaseError | OSError)
                    log.warning("the dashboard cannot update open pages: %s", error, exc_info=not expected)
                failing = True
                for inbox in self._inboxes():
                    _put(inbox, Unavailable())
                await asyncio.sleep(RETRY_SECONDS)
            else:
                failing = False
                await asyncio.sleep(JOB_SECONDS)
        self._task = None

    def _inboxes(self) -> list[asyncio.Queue[Any]]:
        return [
            *(page.inbox for page in self._jobs),
            *(page.inbox for page in self._overviews),
            *(page.inbox for page in self._schedules),
            *(page.inbox for page in self._limits),
        ]

    async def _update_pages(self) -> None:
        this_round, self._round = self._round, self._round + 1
        if self._jobs:
            await self._update_jobs(list(self._jobs))
        if self._overviews and this_round % OVERVIEW_EVERY == 0:
            await self._update_overviews(list(self._overviews))
        if self._schedules and this_round % OVERVIEW_EVERY == 0:
            await self._update_schedules(list(self._schedules))
        if self._limits and this_round % OVERVIEW_EVERY == 0:
            await self._update_limits(list(self._limits))

    async def _update_jobs(self, pages: list[JobPage]) -> None:
        aread = self._app.database.aread
        ids = list({page.job_id for page in pages})
        jobs = {each.id: each for each in await aread(snapshot_queries.find_snapshots(ids))}
        # Events and log lines are read after the state of the job: if it has finished, all of them are there.
        after_line: dict[UUID, int] = {}
        after_event: dict[UUID, int] = {}
        for page in pages:
            if page.job_id in jobs:
                after_line[page.job_id] = min(page.line, after_line.get(page.job_id, page.line))
                if page.event < jobs[page.job_id].events_count:
                    after_event[page.job_id] = min(page.event, after_event.get(page.job_id, page.event))
        events: dict[UUID, list[RecordedEvent]] = {}
        if after_event:
            for event in await aread(event_queries.find_newest_events(after_event, MAX_LINES)):
                events.setdefault(event.job_id, []).append(event)
        logs = await aread(log_queries.find_newest_logs(after_line, MAX_LINES)) if after_line else {}
        workflows = {each.id: each for each in jobs.values() if each.job_type == WORKFLOW}
        ended = [each.id for each in workflows.values() if each.status.finished]
        graphs = await self._graphs.update(workflows, ended)
        for page in pages:
            job = jobs.get(page.job_id)
            if job is None:
                page.send(Deleted())
            else:
                page.send(JobUpdate(job, events.get(job.id, []), logs.get(job.id, []), graph=graphs.get(job.id)))

    async def _update_overviews(self, pages: list[OverviewPage]) -> None:
        windows = {page.window for page in pages}
        first = min(windows)
        overviews = {first: await aoverview(self._app.database, first)}
        for window in windows - {first}:
            # Only the charts differ between windows.
            chart = await self._app.database.aread(overview_queries.get_throughput(window, STEPS[window]))
            overviews[window] = overviews[first]._replace(spans=chart.spans, step=chart.step)
        running, more = await self._find_running()
        updates = {window: OverviewUpdate(each, running, more) for window, each in overviews.items()}
        for page in pages:
            _put(page.inbox, updates[page.window])

    async def _update_schedules(self, pages: list[SchedulesPage]) -> None:
        found = {each: await self.get_schedules(each) for each in {page.selection for page in pages}}
        for page in pages:
            _put(page.inbox, found[page.selection])

    async def _update_limits(self, pages: list[LimitsPage]) -> None:
        found = {each: await self.get_limits(each) for each in {page.selection for page in pages}}
        for page in pages:
            _put(page.inbox, found[page.selection])

    async def _find_running(self) -> tuple[list[JobSnapshot], bool]:
        found = await self._app.database.aread(snapshot_queries.find_snapshots([], MAX_RUNNING + 1))
        found.sort(key=lambda each: (each.started_at is None, each.started_at))
        return found[:MAX_RUNNING], len(found) > MAX_RUNNING


def _put(inbox: asyncio.Queue[Any], update: object) -> None:
    """Disconnects a page that does not keep up."""
    if inbox.full():
        while not inbox.empty():
            inbox.get_nowait()
        inbox.put_nowait(None)
    else:
        inbox.put_nowait(update)
