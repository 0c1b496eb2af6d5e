"""The updates of open lists of jobs: the rows that they show, in place, and how many new jobs there are.

Rows never move while somebody looks at them. One task reads for all lists with the same filter: first the list as it is
now, then those rows that pages still show and that are no longer on its first page.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import NamedTuple
from uuid import UUID

from treadle.app.treadle import Treadle
from treadle.db.queries.listing import find_jobs_by_id
from treadle.text.masking import masked
from treadle.web.dashboard.pages.live.readings import Reading, Readings, Unavailable
from treadle.web.dashboard.pages.rendering import fragment
from treadle.web.dashboard.security.access import Role
from treadle.web.stream import frame
from treadle.words.listing import JobSummary, Listing

# Rows that are read for all pages with the same filter. Pages that were opened at other times show other rows.
MAX_ROWS = 500
# A list that is slow to read is read less often: reading it takes at most this share of the time.
SHARE = 0.05


class ListUpdate(NamedTuple):
    jobs: dict[UUID, JobSummary]
    read: frozenset[UUID]
    """Those that were looked for; those of them that are not among the jobs were deleted."""
    listed: list[UUID]
    """The first page of the list as it is now."""
    more: bool
    """There are further pages."""


class OpenList:
    """The open pages of one list."""

    def __init__(self, app: Treadle, find: Callable[[], Awaitable[Listing]] | None) -> None:
        """Without `find`, only the rows are updated."""
        self._app = app
        self._find = find
        self.pages: list[frozenset[UUID]] = []
        self._listed = Listing([], None)
        self._due = 0.0

    async def read(self) -> ListUpdate:
        jobs: dict[UUID, JobSummary] = {}
        began = time.monotonic()
        if self._find is not None and began >= self._due:
            self._listed = await self._find()
            jobs = {job.id: job for job in self._listed.jobs}
            took = time.monotonic() - began
            self._due = began + took / SHARE
        shown = frozenset(list(frozenset().union(*self.pages))[:MAX_ROWS])
        if missing := shown - jobs.keys():
            found = await self._app.database.aread(find_jobs_by_id(list(missing)))
            jobs |= {job.id: job for job in found}
        return ListUpdate(jobs, shown, [job.id for job in self._listed.jobs], self._listed.next is not None)


class LiveLists:
    def __init__(self, app: Treadle, readings: Readings) -> None:
        self._app = app
        self._readings = readings
        self._open: dict[tuple[object, ...], OpenList] = {}

    async def frames(
        self,
        key: tuple[object, ...],
        find: Callable[[], Awaitable[Listing]] | None,
        shown: frozenset[UUID],
        kind: tuple[str, Role],
    ) -> AsyncGenerator[bytes, None]:
        """Pages with the same key share what is read. `kind`: where the dashboard is mounted, and the role."""
        opened = self._open.setdefault(key, OpenList(self._app, find))
        opened.pages.append(shown)
        sent: dict[UUID, JobSummary] = {}
        try:
            async with aclosing(self._readings.follow(("job list", *key), opened.read)) as readings:
                async for reading in readings:
                    if isinstance(reading, Unavailable):
                        yield frame("unavailable", {"reason": reading.reason})
                        continue
                    changed = [job for each in shown if (job := reading.value.jobs.get(each)) and sent.get(each) != job]
                    yield frame("rows", _changes(reading, shown, changed, kind))
                    sent |= {job.id: job for job in changed}
        finally:
            opened.pages.remove(shown)
            if not opened.pages and self._open.get(key) is opened:
                del self._open[key]


def _changes(
    reading: Reading[ListUpdate], shown: frozenset[UUID], changed: list[JobSummary], kind: tuple[str, Role]
) -> dict[str, object]:
    update = reading.value
    rows: dict[UUID, str] = reading.rendered(kind, lambda _: {})
    for job in changed:
        if job.id not in rows:
            rows[job.id] = render_row(*kind, job)
    return {
        "rows": {str(job.id): rows[job.id] for job in changed},
        "deleted": [str(each) for each in (shown & update.read) - update.jobs.keys()],
        "new": sum(each not in shown for each in update.listed),
        "more": update.more and not shown.intersection(update.listed),
    }


def render_row(mount_path: str, role: Role, job: JobSummary) -> str:
    return fragment(mount_path, role, "parts/job_row.html", job=masked(job))
