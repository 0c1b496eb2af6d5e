"""Queries about workflows: jobs that belong together, and the job that ends with them."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from treadle.db.queries.enqueueing import EnqueueOptions, check_options, using
from treadle.db.query import Query, Rows, call, statement
from treadle.words.duration import duration
from treadle.words.errors import JobNotFound, QueueFull, UnknownSignal
from treadle.words.graph import SIGNAL as SIGNAL
from treadle.words.graph import WORKFLOW as WORKFLOW
from treadle.words.graph import Node
from treadle.words.naming import text_within
from treadle.words.payload import encode
from treadle.words.timeout import timeout_seconds

# Of one graph. More jobs than this are left out.
MAX_NODES = 20_000
# If there are more connections than this, each job has at most MAX_SAMPLED / number of jobs.
MAX_EDGES = 100_000
MAX_SAMPLED = 200_000


class EnqueuedWorkflow(NamedTuple):
    id: UUID
    jobs: list[UUID]


def enqueue_workflow(
    name: str, blocks: Sequence[Mapping[str, Any]], uses: Sequence[tuple[int, UUID]], options: Mapping[str, Any]
) -> Query[EnqueuedWorkflow]:
    """`blocks` are as enqueue_workflow() reads them; `uses` are the stored objects, with the numbers of their jobs."""
    params = {"name": text_within(name, 200, "name"), "blocks": json.dumps(blocks), "options": json.dumps(options)}

    def read(rows: Rows) -> EnqueuedWorkflow:
        if rows[0][0] is None:
            if rows[0][1] is None:
                raise QueueFull("workflow", sum(len(block["data"]) for block in blocks))
            raise JobNotFound(rows[0][1])
        *jobs, workflow = [row[1] for row in rows]
        return EnqueuedWorkflow(workflow, jobs)

    query = Query(statement("enqueue_workflow"), params, read, makes_due=True)
    if not uses:
        return query
    return using(query, "nth, id", "enqueued.nth is not null", [(nth + 1, each) for nth, each in uses])


class WorkflowCounts(NamedTuple):
    """How many jobs of a workflow there are, and how they have ended."""

    is_open: bool
    """More are to be added: it is not closed yet."""
    jobs: int
    completed: int
    """Also those that were not needed."""
    failed: int
    cancelled: int
    """Also those that were deleted before they ended."""

    @property
    def left(self) -> int:
        """How many have not ended."""
        return self.jobs - self.completed - self.failed - self.cancelled


def count_members(workflow: UUID) -> Query[WorkflowCounts]:
    def read(rows: Rows) -> WorkflowCounts:
        if not rows:
            raise JobNotFound(workflow)
        return WorkflowCounts(*rows[0])

    return Query(statement("count_members"), {"id": workflow}, read)


def close_workflow(workflow: UUID) -> Query[bool]:
    return call("close_workflow", {"id": workflow}, lambda rows: bool(rows[0][0]), makes_due=True)


def send_signal(workflow: UUID, name: str, value: Any, actor: str | None = None) -> Query[bool]:
    """Whether it was taken: only the first one is. Raises UnknownSignal if nothing waits for it."""
    params = {
        "id": workflow,
        "name": text_within(name, 100, "name of a signal"),
        "value": encode(value),
        "actor": actor,
    }

    def read(rows: Rows) -> bool:
        if rows[0][0] == "unknown":
            raise UnknownSignal(name, workflow)
        return bool(rows[0][0] == "taken")

    return Query(statement("send_signal"), params, read, makes_due=True)


def retry_workflow(workflow: UUID) -> Query[int]:
    return call("retry_workflow", {"id": workflow}, lambda rows: int(rows[0][0]), makes_due=True)


class Member(NamedTuple):
    """A job of a workflow."""

    id: UUID
    job_type: str | None
    """None: it was deleted."""
    status: str | None
    progress: int
    name: str | None
    """As the workflow names it."""


def find_members(workflow: UUID) -> Query[list[Member]]:
    return Query(statement("find_members"), {"id": workflow}, lambda rows: [Member(*row) for row in rows])


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _node(row: Sequence[Any]) -> Node:
    job_id, name, job_type, status, is_blocked, progress, *times, title = row
    created, started, finished = map(_time, times)
    return Node(job_id, name, job_type, status, bool(is_blocked), progress or 0, created, started, finished, title)


def _graph_statement(name: str, titles: bool) -> str:
    """Without `titles`, for roles that may not read payloads: the names of workflows are in them."""
    node = statement("graph_node")
    node = node if titles else node.replace("left(known.data ->> 'name', 200)", "null::text")
    return statement(name).replace("/* graph_node.sql */", node)


def in_index_order() -> Query[None]:
    """For the rest of the transaction: a limit reads only as many rows of an index. If the statistics are old, the
    planner expects few jobs in a workflow, and would read and sort all of them."""
    return Query("select pg_catalog.set_config('enable_bitmapscan', 'off', true)", {}, lambda rows: None)


class GraphRows(NamedTuple):
    """The jobs of a workflow, at most MAX_NODES + 1."""

    at: datetime | None
    """None: there are no jobs."""
    nodes: list[Node]


def find_graph(workflow: UUID, *, titles: bool = True) -> Query[GraphRows]:
    def read(rows: Rows) -> GraphRows:
        return GraphRows(_time(rows[0][0]) if rows else None, [_node(row[1:]) for row in rows])

    return Query(_graph_statement("find_graph", titles), {"id": workflow, "limit": MAX_NODES + 1}, read, pinned=True)


def find_graph_edges(workflow: UUID, each: int | None = None) -> Query[dict[UUID, list[UUID]]]:
    """For each job of the workflow that waits for others, those others: at most MAX_EDGES + 1 together, or, if `each`
    is given, at most so many of each job, the newest."""
    params = {
        "id": workflow,
        "limit": MAX_NODES + 1,
        "edges": MAX_EDGES + 1 if each is None else None,
        "each": each,
    }
    return Query(statement("find_graph_edges"), params, dict, pinned=True)


def find_nested_edges(workflow: UUID, nested: Sequence[UUID]) -> Query[dict[UUID, list[UUID]]]:
    """For each of these workflows, which are parts of the first one: the other jobs of that one that their jobs wait
    for."""
    return Query(statement("find_nested_edges"), {"id": workflow, "nested": list(nested)}, dict, pinned=True)


def find_graph_jobs(ids: Sequence[UUID], *, titles: bool = True) -> Query[list[Node]]:
    """Jobs outside of a workflow that its jobs wait for."""
    return Query(
        _graph_statement("find_graph_jobs", titles),
        {"ids": list(ids)},
        lambda rows: [_node(row)._replace(outside=True) for row in rows],
        pinned=True,
    )


class Neighbours(NamedTuple):
    """The jobs around one job. Of each kind as many as were asked for, and one more if there are more."""

    workflows: list[Node]
    """Those that it is a part of."""
    before: list[Node]
    """The jobs that it waits for, those that have not ended first."""
    following: list[Node]
    """The jobs that wait for it."""


def find_neighbours(job_id: UUID, limit: int, *, titles: bool = True) -> Query[Neighbours]:
    def read(rows: Rows) -> Neighbours:
        found: dict[str, list[Node]] = {"workflow": [], "before": [], "following": []}
        for kind, *row in rows:
            found[kind].append(_node(row))
        return Neighbours(*found.values())

    params = {"id": job_id, "limit": limit + 1}
    return Query(_graph_statement("find_neighbours", titles), params, read, pinned=True)


def step_options(options: EnqueueOptions) -> dict[str, Any]:
    """The options of a job, as enqueue_workflow() reads them."""
    check_options(**options)
    given: Mapping[str, Any] = options
    found = {name: given[name] for name in ("priority", "queue", "weight") if name in given}
    if "retry" in given:
        found["max_attempts"] = given["retry"].max_attempts
    if "timeout" in given:
        found["timeout"] = list(timeout_seconds(given["timeout"]))
    if options.get("headers"):
        found["headers"] = options["headers"]
    if options.get("run_at") is not None:
        found["run_at"] = options["run_at"].isoformat()
    if options.get("delay") is not None:
        found["delay"] = duration(options["delay"], "delay").total_seconds()
    expires = options.get("expires")
    if isinstance(expires, datetime):
        found["expires_at"] = expires.isoformat()
    elif expires is not None:
        found["expires"] = duration(expires, "expires").total_seconds()
    return found
