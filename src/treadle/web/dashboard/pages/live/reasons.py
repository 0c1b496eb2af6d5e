"""Why the jobs whose pages are open do not run: read again every few seconds, and when a worker stops working."""

import asyncio
from collections.abc import Iterable
from uuid import UUID

from treadle.app.treadle import Treadle
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.reasons import find_reason
from treadle.why.reason import Reason
from treadle.words.snapshot import JobSnapshot

REASON_SECONDS = 2.0
# A reason takes two queries. With many open pages it is read less often.
MAX_PER_ROUND = 3


class LiveReasons:
    def __init__(self, app: Treadle, readings: Readings) -> None:
        self._app = app
        self._readings = readings
        self._changes = 0
        self._known: dict[UUID, Reason | None] = {}
        self._due: dict[UUID, float] = {}

    async def update(self, jobs: Iterable[JobSnapshot]) -> dict[UUID, Reason | None]:
        """The newest reasons. The page of a job has one when it is opened, so the first is read a while later."""
        clock = asyncio.get_running_loop().time
        open_jobs = {each.id: each for each in jobs if not each.status.finished}
        for gone in self._due.keys() - open_jobs.keys():
            del self._due[gone]
            self._known.pop(gone, None)
        for each in open_jobs.values():
            self._due.setdefault(each.id, clock() + REASON_SECONDS)
        if self._changes != self._readings.changes:
            self._changes = self._readings.changes
            self._due = dict.fromkeys(self._due, 0.0)
        late = sorted((due, each) for each, due in self._due.items() if due <= clock())
        for _, job_id in late[:MAX_PER_ROUND]:
            self._known[job_id] = await find_reason(self._app, open_jobs[job_id])
            self._due[job_id] = clock() + REASON_SECONDS
        return dict(self._known)
