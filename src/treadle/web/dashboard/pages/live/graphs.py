"""The graphs of the workflows whose pages are open."""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from uuid import UUID

from treadle.app.treadle import Treadle
from treadle.operations.graph import aget_graph
from treadle.words.errors import TooSlow
from treadle.words.graph import Graph

# How often a graph is read; a large one less often: after a second for each thousand jobs.
GRAPH_SECONDS = 2.0
JOBS_PER_SECOND = 1_000


class LiveGraphs:
    def __init__(self, app: Treadle) -> None:
        self._app = app
        self._known: dict[UUID, Graph] = {}
        self._due: dict[UUID, float] = {}

    async def update(self, workflows: Collection[UUID], ended: Collection[UUID]) -> dict[UUID, Graph]:
        """The newest graph of each of these workflows: the same value as before if nothing has changed. Those that have
        `ended` are read in any case."""
        for gone in self._due.keys() - set(workflows):
            del self._due[gone]
            self._known.pop(gone, None)
        clock = asyncio.get_running_loop().time
        for each in workflows:
            if each in ended or self._due.get(each, 0.0) <= clock():
                # A slow graph must not stop the updates of other pages.
                with suppress(TooSlow):
                    await self._read(each)
                jobs = len(self._known[each].nodes) if each in self._known else 0
                self._due[each] = clock() + max(GRAPH_SECONDS, jobs / JOBS_PER_SECOND)
        return dict(self._known)

    async def _read(self, workflow: UUID) -> None:
        known = self._known.get(workflow)
        graph = await aget_graph(self._app.database, workflow, known)
        if not graph.is_same(known):
            self._known[workflow] = graph
