"""The graph of a workflow, read from the database."""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from treadle.db.database import Database
from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.queries import workflows as queries
from treadle.db.queries.listing import may_read_payloads
from treadle.db.queries.workflows import GraphRows, Neighbours
from treadle.db.query import Query
from treadle.db.script import adrive, drive
from treadle.text.masking import masked
from treadle.words.errors import JobNotFound
from treadle.words.graph import WORKFLOW, Graph, Node
from treadle.words.snapshot import JobSnapshot

# Jobs outside of the workflow that are shown.
MAX_OUTSIDE = 100
# Nested workflows whose jobs are examined for what they wait for.
MAX_NESTED = 1_000


def get_graph(database: Database, workflow: UUID) -> Graph:
    return drive(_graph(workflow, None), _reader(database))


async def aget_graph(database: Database, workflow: UUID, known: Graph | None = None) -> Graph:
    """`known` is an earlier graph of the same workflow: what its jobs wait for is not read again, unless it has other
    jobs now."""
    return await adrive(_graph(workflow, known), _areader(database))


async def aget_job_graph(database: Database, job_id: UUID) -> Graph:
    """Of any job. One that is not a workflow is one node."""
    return await adrive(_job_graph(job_id), _areader(database))


async def aget_neighbours(database: Database, job_id: UUID, limit: int) -> Neighbours:
    titles = await database.aread(may_read_payloads())
    found: Neighbours = await _areader(database)(queries.find_neighbours(job_id, limit, titles=titles))
    return found


def _reader(database: Database) -> Callable[[Query[Any]], Any]:
    return lambda query: database.read_together((queries.in_index_order(), query))[-1]


def _areader(database: Database) -> Callable[[Query[Any]], Awaitable[Any]]:
    async def read(query: Query[Any]) -> Any:
        return (await database.aread_together((queries.in_index_order(), query)))[-1]

    return read


def mask_graph(graph: Graph, titles: bool = True) -> Graph:
    """Masks what looks like a secret in the names. Without `titles`, the names of nested workflows, which are in their
    payloads, are left out."""
    known: dict[str | None, str | None] = {None: None}

    def mask(text: str | None) -> str | None:
        if text not in known:
            known[text] = masked(text)
        return known[text]

    return graph._replace(nodes=[_masked(each, mask, titles) for each in graph.nodes])


def mask_node(node: Node, titles: bool = True) -> Node:
    return _masked(node, masked, titles)


def _masked(node: Node, mask: Any, titles: bool) -> Node:
    return node._replace(name=mask(node.name), job_type=mask(node.job_type), title=mask(node.title) if titles else None)


def _job_graph(job_id: UUID) -> Generator[Query[Any], Any, Graph]:
    jobs: list[JobSnapshot] = yield snapshot_queries.find_snapshots([job_id])
    if not jobs:
        raise JobNotFound(job_id)
    if jobs[0].job_type == WORKFLOW:
        return (yield from _graph(job_id, None))
    titles: bool = yield may_read_payloads()
    nodes: list[Node] = yield queries.find_graph_jobs([job_id], titles=titles)
    return Graph(job_id, jobs[0].at, [each._replace(outside=False) for each in nodes], [() for _ in nodes])


def _graph(workflow: UUID, known: Graph | None) -> Generator[Query[Any], Any, Graph]:
    titles: bool = yield may_read_payloads()
    rows: GraphRows = yield queries.find_graph(workflow, titles=titles)
    members = rows.nodes
    at = rows.at or datetime.now(UTC)
    more = len(members) > queries.MAX_NODES
    if known is not None and [each.id for each in members] == [each.id for each in known.members]:
        outside = [each.id for each in known.nodes if each.outside]
        others: list[Node] = (yield queries.find_graph_jobs(outside, titles=titles)) if outside else []
        return Graph(workflow, at, [*members, *others], known.after, more, known.sampled)
    sources: Mapping[UUID, Sequence[UUID]] = yield queries.find_graph_edges(workflow)
    sampled = sum(map(len, sources.values())) > queries.MAX_EDGES
    if sampled:
        sources = yield queries.find_graph_edges(workflow, max(5, queries.MAX_SAMPLED // len(members)))
    if nested := [each.id for each in members if each.job_type == WORKFLOW][:MAX_NESTED]:
        more_sources: Mapping[UUID, Sequence[UUID]] = yield queries.find_nested_edges(workflow, nested)
        joined = {each: {*sources.get(each, ()), *found} for each, found in more_sources.items()}
        sources = {**sources, **{each: sorted(found) for each, found in joined.items()}}
    numbers = {each.id: nth for nth, each in enumerate(members)}
    outside = sorted({each for waited in sources.values() for each in waited if each not in numbers})[:MAX_OUTSIDE]
    others = (yield queries.find_graph_jobs(outside, titles=titles)) if outside else []
    numbers |= {each.id: len(members) + nth for nth, each in enumerate(others)}
    after = [tuple(numbers[each] for each in sources.get(node.id, ()) if each in numbers) for node in members]
    return Graph(workflow, at, [*members, *others], [*after, *(() for _ in others)], more, sampled)
