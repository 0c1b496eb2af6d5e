"""The graph on the page of a workflow."""

import asyncio

from treadle.web.dashboard.pages.graph_drawing import Drawing, draw
from treadle.web.dashboard.pages.rendering import fragment
from treadle.web.dashboard.redaction import redact_graph
from treadle.web.dashboard.security.access import Role
from treadle.words.graph import Graph

# Rendered graphs that are kept.
_KEPT = 32


async def draw_graph(role: Role, graph: Graph) -> Drawing:
    """In a thread: a graph of thousands of jobs takes a few tenths of a second, in which other pages are served."""
    return await asyncio.to_thread(lambda: draw(redact_graph(role, graph)))


class RenderedGraphs:
    """The newest graph of each workflow, rendered once for all pages that show it."""

    def __init__(self) -> None:
        self._rendered: dict[tuple[int, Role, str], tuple[Graph, asyncio.Task[str]]] = {}

    async def get(self, role: Role, mount_path: str, graph: Graph) -> str:
        key = (id(graph), role, mount_path)
        if key not in self._rendered:
            while len(self._rendered) >= _KEPT:
                del self._rendered[next(iter(self._rendered))]
            # The graph is kept, too, so that its id is not that of another one.
            self._rendered[key] = (graph, asyncio.create_task(self._render(role, mount_path, graph)))
        return await asyncio.shield(self._rendered[key][1])

    async def _render(self, role: Role, mount_path: str, graph: Graph) -> str:
        drawing = await draw_graph(role, graph)
        return fragment(mount_path, role, "parts/graph.html", drawing=drawing)
