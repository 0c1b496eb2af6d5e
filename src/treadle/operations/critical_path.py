"""The path through a workflow that decides how long it takes, and what its drawing needs of the order of its jobs."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from treadle.words.graph import SIGNAL, WORKFLOW, Graph
from treadle.words.status import Status

# No worker runs these: they begin when everything that they wait for has ended.
_NOT_RUN = (WORKFLOW, SIGNAL)


class Path(NamedTuple):
    """The critical path."""

    nodes: Sequence[int]
    """Their numbers, first to last."""
    seconds: float


def topological(after: Sequence[Sequence[int]]) -> list[int]:
    """The numbers of the nodes, each after those that it waits for.

    Rows that were written by hand may wait for each other. Of such a circle, one node comes too early.
    """
    following = followers(after)
    left = [len(each) for each in after]
    ready = [nth for nth, count in enumerate(left) if count == 0]
    ordered: list[int] = []
    placed = [False] * len(after)
    waiting = iter(range(len(after)))
    while len(ordered) < len(after):
        if not ready:
            ready.append(next(nth for nth in waiting if not placed[nth]))
        nth = ready.pop()
        if placed[nth]:
            continue
        placed[nth] = True
        ordered.append(nth)
        for later in following[nth]:
            left[later] -= 1
            if left[later] == 0 and not placed[later]:
                ready.append(later)
    return ordered


def followers(after: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each node, the numbers of the nodes that wait for it."""
    found: list[list[int]] = [[] for _ in after]
    for nth, sources in enumerate(after):
        for source in sources:
            found[source].append(nth)
    return found


def layers(after: Sequence[Sequence[int]]) -> list[int]:
    """The layer of each node: 0 if it waits for nothing, else one more than the last of those that it waits for."""
    found = [-1] * len(after)
    for nth in topological(after):
        found[nth] = 1 + max((found[source] for source in after[nth]), default=-1)
    return found


def durations(graph: Graph) -> list[float | None]:
    """How many seconds each job ran in its last attempt, or has run so far; None: it did not run."""
    return [_duration(graph, nth) for nth in range(len(graph.nodes))]


def begun_at(graph: Graph, nth: int) -> datetime | None:
    """When the job began to run; None: it did not."""
    node = graph.nodes[nth]
    if node.job_type not in _NOT_RUN:
        return node.started_at
    sources = [graph.nodes[each] for each in graph.after[nth]]
    if not all(each.ended for each in sources):
        return None
    return max((each.finished_at for each in sources if each.finished_at is not None), default=node.created_at)


def _duration(graph: Graph, nth: int) -> float | None:
    node, begun = graph.nodes[nth], begun_at(graph, nth)
    if begun is None:
        return None
    if node.finished_at is not None:
        end = node.finished_at
    elif node.status == Status.RUNNING or node.job_type in _NOT_RUN:
        end = graph.at
    else:
        return None  # an attempt has failed, and the next has not started
    return max(0.0, (end - begun).total_seconds())


def critical_path(graph: Graph) -> Path:
    """The path with the largest sum of durations, of jobs of the workflow that ran or run now. Until the workflow has
    ended, it is the longest so far."""
    seconds = durations(graph)
    # The sum up to each node, and the node before it on that path.
    total = [0.0] * len(graph.nodes)
    before: list[int | None] = [None] * len(graph.nodes)
    for nth in topological(graph.after):
        if graph.nodes[nth].outside:
            continue
        longest = max(graph.after[nth], key=lambda source: total[source], default=None)
        if longest is not None and total[longest] > 0:
            before[nth] = longest
            total[nth] = total[longest]
        total[nth] += seconds[nth] or 0.0
    ran = [nth for nth, each in enumerate(seconds) if each is not None and not graph.nodes[nth].outside]
    if not ran:
        return Path((), 0.0)
    last = max(ran, key=lambda nth: total[nth])
    found = [last]
    while (source := before[found[-1]]) is not None:
        found.append(source)
    return Path(tuple(found[::-1]), total[last])
