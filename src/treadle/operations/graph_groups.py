"""Summarises a graph that is too large to be read: similar jobs become one group."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from treadle.operations.critical_path import followers, layers, topological
from treadle.words.graph import DELETED, Graph, Node

# More jobs or connections than this are summarised.
MAX_JOBS = 600
MAX_EDGES = 3_000
# So many jobs that wait for the same jobs, and that the same jobs wait for, are drawn as a block.
BLOCK_SIZE = 6
# If the groups are still too many, this many successive layers remain.
_BANDS = 50


class Kind(StrEnum):
    JOB = "job"
    BLOCK = "block"
    """Each of its jobs is drawn, but its connections only once."""
    GROUP = "group"
    """Only the numbers of its jobs are drawn."""


class Item(NamedTuple):
    """A job, or jobs that are drawn together."""

    kind: Kind
    nodes: Sequence[int]
    after: Sequence[int]
    """The numbers of the items that it waits for."""
    layer: int


def items(graph: Graph, max_jobs: int = MAX_JOBS, max_edges: int = MAX_EDGES, blocks: bool = True) -> list[Item]:
    """The jobs as they are if there are few, otherwise groups of jobs of the same type in the same layer: the finest
    grouping that is small enough. `blocks` allows blocks."""
    if len(graph.nodes) <= max_jobs:
        found = _items(graph, _blocks(graph) if blocks else list(range(len(graph.nodes))), Kind.BLOCK)
        if _edges(found) <= max_edges:
            return found
    depth = layers(graph.after)
    deepest = max(depth, default=0)
    band = depth if deepest < _BANDS else [each * _BANDS // (deepest + 1) for each in depth]
    for partition in _partitions(graph, depth, band):
        found = _items(graph, partition, Kind.GROUP)
        if len(found) <= max_jobs and _edges(found) <= max_edges:
            return found
    return _items(graph, _numbered(band), Kind.GROUP)


def _partitions(graph: Graph, depth: Sequence[int], band: Sequence[int]) -> Iterator[list[int]]:
    """The number of the group of each node, ever coarser."""
    alike = _alike(graph, depth)
    yield alike
    yield _without_chains(graph, alike)
    types = [group_type(node) for node in graph.nodes]
    yield _numbered(list(zip(types, depth, strict=True)))
    yield _numbered(list(zip(types, band, strict=True)))


def group_type(node: Node) -> tuple[str, bool]:
    return node.job_type or DELETED, node.outside


def _edges(found: Sequence[Item]) -> int:
    return sum(len(each.after) for each in found)


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    """The number of each node's group. Equal keys are one group."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(key, len(known)) for key in keys]


def _blocks(graph: Graph) -> list[int]:
    following = followers(graph.after)
    keys = [(tuple(sorted(before)), tuple(later)) for before, later in zip(graph.after, following, strict=True)]
    sizes = Counter(keys)
    # A job without any connection is not in a block with others: nothing says that they belong together.
    return _numbered([key if sizes[key] >= BLOCK_SIZE and key != ((), ()) else nth for nth, key in enumerate(keys)])


def _alike(graph: Graph, depth: Sequence[int]) -> list[int]:
    """Jobs of the same type, in the same layer, that wait for the same groups."""
    known: dict[Hashable, int] = {}
    group = [-1] * len(graph.nodes)
    for nth in topological(graph.after):
        sources = frozenset(group[each] for each in graph.after[nth])
        key = (group_type(graph.nodes[nth]), depth[nth], sources)
        group[nth] = known.setdefault(key, len(known))
    return group


def _without_chains(graph: Graph, group: Sequence[int]) -> list[int]:
    """Groups of one type that follow each other, and nothing else, become one."""
    count = max(group) + 1
    types: list[Hashable] = [None] * count
    for nth, node in enumerate(graph.nodes):
        types[group[nth]] = group_type(node)
    before = _quotient(graph, group, count)
    following = followers([tuple(each) for each in before])
    merged = list(range(count))
    for nth in topological([tuple(each) for each in before]):
        if len(before[nth]) == 1:
            (source,) = before[nth]
            if len(following[source]) == 1 and types[source] == types[nth]:
                merged[nth] = merged[source]
    return _numbered([merged[each] for each in group])


def _quotient(graph: Graph, group: Sequence[int], count: int) -> list[set[int]]:
    """For each group, the groups that it waits for."""
    before: list[set[int]] = [set() for _ in range(count)]
    for nth, sources in enumerate(graph.after):
        before[group[nth]].update(group[each] for each in sources)
    for nth, each in enumerate(before):
        each.discard(nth)
    return before


def _items(graph: Graph, group: Sequence[int], kind: Kind) -> list[Item]:
    nodes: dict[int, list[int]] = defaultdict(list)
    for nth, each in enumerate(group):
        nodes[each].append(nth)
    numbers = {each: nth for nth, each in enumerate(nodes)}
    group = [numbers[each] for each in group]
    after = [tuple(sorted(each)) for each in _quotient(graph, group, len(nodes))]
    return [
        Item(Kind.JOB if len(members) == 1 else kind, tuple(members), before, layer)
        for members, before, layer in zip(nodes.values(), after, layers(after), strict=True)
    ]


def group_label(nodes: Sequence[Node]) -> str:
    """The job type, or the types, of a group."""
    types = Counter(node.job_type or DELETED for node in nodes)
    first = next(iter(types))
    return first if len(types) == 1 else f"{first} and {len(types) - 1:,} other types"
