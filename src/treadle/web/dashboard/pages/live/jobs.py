"""The updates of the pages of jobs: each second one query for all jobs whose page is open."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple
from uuid import UUID

from treadle.app.treadle import Treadle
from treadle.db.queries import logs as log_queries
from treadle.db.script import adrive
from treadle.watching.snapshots import read_snapshot
from treadle.web.dashboard.pages.live.details import LiveGraphs, LiveReasons
from treadle.web.dashboard.pages.live.readings import Readings, Unavailable
from treadle.why.reason import Reason
from treadle.words.graph import Graph
from treadle.words.record import LogLine, RecordedEvent
from treadle.words.snapshot import JobSnapshot

JOB_SECONDS = 1.0
# New events and log lines of one job in one round. More than anyone reads in a second.
MAX_LINES = 200
TOPIC = "jobs"


class JobUpdate(NamedTuple):
    job: JobSnapshot
    events: list[RecordedEvent]
    logs: list[LogLine]
    cursor: str = ""
    """Where the page that receives it continues after a reconnect."""
    graph: Graph | None = None
    """Of a workflow: its graph, if the page does not have it yet."""
    why: Reason | None = None
    """Why it is not running, if that was read since the page was opened."""
    has_reason: bool = False


class Deleted(NamedTuple):
    """The job no longer exists."""


class JobPage:
    """An open page of a job, with the numbers of the last event and log line that it has."""

    def __init__(self, job_id: UUID, event: int, line: int) -> None:
        self.job_id = job_id
        self.event = event
        self.line = line
        self.graph: Graph | None = None

    def without_known(self, update: JobUpdate) -> JobUpdate:
        """Leaves out the events, the log lines and the graph that the page has already."""
        events = [each for each in update.events if (each.number or 0) > self.event]
        logs = [each for each in update.logs if each.number > self.line]
        self.event = max([self.event, *(each.number or 0 for each in events)])
        self.line = max([self.line, *(each.number for each in logs)])
        graph = None if update.graph is self.graph else update.graph
        self.graph = update.graph
        return update._replace(events=events, logs=logs, cursor=f"{self.event}.{self.line}", graph=graph)


class LiveJobs:
    def __init__(self, app: Treadle, readings: Readings) -> None:
        self._app = app
        self._readings = readings
        self._pages: set[JobPage] = set()
        self._graphs = LiveGraphs(app)
        self._reasons = LiveReasons(app, readings)

    async def follow(self, page: JobPage) -> AsyncGenerator[JobUpdate | Unavailable | Deleted, None]:
        """Updates until the job has finished."""
        self._pages.add(page)
        try:
            async with aclosing(self._readings.follow(TOPIC, self._read, JOB_SECONDS)) as readings:
                async for reading in readings:
                    if isinstance(reading, Unavailable):
                        yield reading
                        continue
                    if page.job_id not in reading.value:
                        continue  # the page was opened after this read began
                    update = reading.value[page.job_id]
                    yield page.without_known(update) if isinstance(update, JobUpdate) else update
                    if isinstance(update, Deleted) or update.job.status.finished:
                        return
        finally:
            self._pages.discard(page)

    async def _read(self) -> dict[UUID, JobUpdate | Deleted]:
        aread, pages = self._app.database.aread, list(self._pages)
        # Of pages of the same job, the one that has the fewest comes last.
        seen = {page.job_id: page.event for page in sorted(pages, key=lambda page: -page.event)}
        lines = {page.job_id: page.line for page in sorted(pages, key=lambda page: -page.line)}
        jobs, events = await adrive(read_snapshot(list(seen), seen, MAX_LINES), aread)
        known = {each.id: lines[each.id] for each in jobs}
        logs = await aread(log_queries.find_newest_logs(known, MAX_LINES)) if known else {}
        graphs, reasons = await self._graphs.update(jobs), await self._reasons.update(jobs)
        events_of: dict[UUID, list[RecordedEvent]] = {}
        for event in events:
            events_of.setdefault(event.job_id, []).append(event)
        found: dict[UUID, JobUpdate | Deleted] = dict.fromkeys(seen, Deleted())
        for job in jobs:
            found[job.id] = JobUpdate(
                job,
                events_of.get(job.id, []),
                logs.get(job.id, []),
                graph=graphs.get(job.id),
                why=reasons.get(job.id),
                has_reason=job.id in reasons,
            )
        return found
