"""The graph of a workflow, as the API shows it."""

from collections import Counter
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from treadle.operations.critical_path import critical_path, durations
from treadle.operations.graph_groups import Kind, group_label, items
from treadle.words import graph as graphs


class GraphNode(NamedTuple):
    """A job, or, in a graph of more than 600 jobs, a group of similar jobs."""

    number: int
    """Its place in `nodes`."""
    id: UUID | None
    """Null: a group."""
    label: str
    """The name of the step, otherwise the job type."""
    job_type: str | None
    """Null: the job was deleted, or a group has several types."""
    jobs: int
    """How many jobs it stands for."""
    states: dict[str, int]
    """How many of them are in which state: a status, `blocked` (pending, but waits for other jobs), `skipped`
    (cancelled, because it was not needed) or `deleted`."""
    started_at: datetime | None
    finished_at: datetime | None
    seconds: float | None
    """How long it ran, or has run so far; of a group, the longest. Null: it did not run."""
    layer: int
    """0: it waits for nothing."""
    critical: bool
    """It is on the critical path, or one of its jobs is."""
    outside: bool
    """It is not a part of the workflow, but one of its jobs waits for it."""
    after: list[int]
    """The numbers of the nodes that it waits for."""


class Graph(NamedTuple):
    """Of a workflow. A job that is not a workflow is one node."""

    id: UUID
    at: datetime
    jobs: int
    """How many jobs the workflow has, as far as they were read."""
    states: dict[str, int]
    critical_seconds: float
    """The sum of the durations on the critical path: the longest one so far, until the workflow has ended."""
    nodes: list[GraphNode]
    more: bool
    """The workflow has more jobs than were read."""
    sampled: bool
    """There are so many connections that some are left out."""


def describe(graph: graphs.Graph) -> Graph:
    path = critical_path(graph)
    critical = set(path.nodes)
    seconds = durations(graph)
    found = []
    for number, item in enumerate(items(graph, blocks=False)):
        nodes = [graph.nodes[nth] for nth in item.nodes]
        first, is_job = nodes[0], item.kind is Kind.JOB
        types = {node.job_type for node in nodes}
        found.append(
            GraphNode(
                number=number,
                id=first.id if is_job else None,
                label=first.label if is_job else group_label(nodes),
                job_type=first.job_type if len(types) == 1 else None,
                jobs=len(nodes),
                states=graphs.in_order(Counter(node.state for node in nodes)),
                started_at=first.started_at if is_job else None,
                finished_at=first.finished_at if is_job else None,
                seconds=max((took for nth in item.nodes if (took := seconds[nth]) is not None), default=None),
                layer=item.layer,
                critical=any(nth in critical for nth in item.nodes),
                outside=first.outside,
                after=list(item.after),
            )
        )
    members = graph.members
    states = graphs.states(members)
    return Graph(graph.id, graph.at, len(members), states, path.seconds, found, graph.more, graph.sampled)
