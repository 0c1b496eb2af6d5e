"""What pages of jobs show besides the job and is read less often, because it takes longer: the graph of a workflow, and
why a job does not run."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from uuid import UUID

from treadle.app.treadle import Treadle
from treadle.operations.graph import aget_graph
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.redaction import redact_reason
from treadle.why.explain import awhy
from treadle.why.reason import Reason
from treadle.words.errors import JobNotFound, TooSlow
from treadle.words.graph import WORKFLOW, Graph
from treadle.words.snapshot import JobSnapshot

# How often a graph is read; a large one less often: after a second for each thousand jobs.
GRAPH_SECONDS = 2.0
JOBS_PER_SECOND = 1_000
REASON_SECONDS = 2.0
# A reason takes two queries. With many open pages it is read less often.
MAX_REASONS = 3


class DueTimes:
    """When something is to be read for each open job."""

    def __init__(self) -> None:
        self._due: dict[UUID, float] = {}

    def late(self, jobs: Iterable[UUID], seconds: float = 0.0) -> Sequence[UUID]:
        """Those of the jobs whose time has come, in that order. That of a new job comes after `seconds`."""
        now = asyncio.get_running_loop().time()
        self._due = {each: self._due.get(each, now + seconds) for each in jobs}
        return sorted((each for each, due in self._due.items() if due <= now), key=self._due.__getitem__)

    def again(self, job: UUID, seconds: float) -> None:
        self._due[job] = asyncio.get_running_loop().time() + seconds

    def all_now(self) -> None:
        self._due = dict.fromkeys(self._due, 0.0)


class LiveGraphs:
    def __init__(self, app: Treadle) -> None:
        self._app = app
        self._known: dict[UUID, Graph] = {}
        self._due = DueTimes()

    async def update(self, jobs: Sequence[JobSnapshot]) -> dict[UUID, Graph]:
        """The newest graphs of the workflows among these: the same value as before if nothing has changed. Those that
        have ended are read in any case."""
        workflows = {each.id: each for each in jobs if each.job_type == WORKFLOW}
        self._known = {each: graph for each, graph in self._known.items() if each in workflows}
        ended = {each.id for each in workflows.values() if each.status.finished}
        for each in ended.union(self._due.late(workflows)):
            # A slow graph must not stop the updates of other pages.
            with suppress(TooSlow):
                known = self._known.get(each)
                graph = await aget_graph(self._app.database, each, known)
                if not graph.is_same(known):
                    self._known[each] = graph
            number = len(self._known[each].nodes) if each in self._known else 0
            self._due.again(each, max(GRAPH_SECONDS, number / JOBS_PER_SECOND))
        return dict(self._known)


class LiveReasons:
    def __init__(self, app: Treadle, readings: Readings) -> None:
        self._app = app
        self._readings = readings
        self._changes = 0
        self._known: dict[UUID, Reason | None] = {}
        self._due = DueTimes()

    async def update(self, jobs: Sequence[JobSnapshot]) -> dict[UUID, Reason | None]:
        """The newest reasons. The page of a job has one when it is opened, so the first is read a while later; all are
        read again when a worker stops working."""
        open_jobs = {each.id: each for each in jobs if not each.status.finished}
        self._known = {each: reason for each, reason in self._known.items() if each in open_jobs}
        if self._changes != self._readings.changes:
            self._changes = self._readings.changes
            self._due.all_now()
        for each in self._due.late(open_jobs, REASON_SECONDS)[:MAX_REASONS]:
            self._known[each] = await find_reason(self._app, open_jobs[each])
            self._due.again(each, REASON_SECONDS)
        return dict(self._known)


async def find_reason(app: Treadle, snapshot: JobSnapshot) -> Reason | None:
    """None if there is nothing to say that the page does not say anyway."""
    if snapshot.status.finished:
        return None
    with suppress(JobNotFound, TooSlow):
        reason = await awhy(app.database, snapshot.id)
        return None if reason.name == "running" else redact_reason(reason)
    return None
