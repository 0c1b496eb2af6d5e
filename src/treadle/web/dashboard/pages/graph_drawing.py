"""The graph of a workflow as shapes and words. A template draws them as SVG, and as a table."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from math import ceil, sqrt
from typing import NamedTuple
from uuid import UUID

from treadle.operations.critical_path import begun_at, critical_path, durations
from treadle.operations.graph_groups import Item, Kind, group_label, items
from treadle.web.dashboard.pages.charts import brief
from treadle.web.dashboard.pages.graph_layout import COLUMN_GAP, Layout, Place, Size, layout
from treadle.words.formatting import count, printable
from treadle.words.graph import Graph, Node, in_order, states


class Shape(StrEnum):
    JOB = "job"
    CELL = "cell"
    """A job in a block."""
    SQUARE = "square"
    """A job in a block of many."""
    GROUP = "group"


MARGIN = 8.0
SIZES = {
    Shape.JOB: Size(176.0, 42.0),
    Shape.CELL: Size(136.0, 24.0),
    Shape.SQUARE: Size(20.0, 20.0),
    Shape.GROUP: Size(208.0, 62.0),
}
# Characters that fit into the boxes. What does not fit is also clipped.
LABELS = {Shape.JOB: 20, Shape.CELL: 10, Shape.SQUARE: 0, Shape.GROUP: 18}
CELL_GAP = 4.0
FRAME = 6.0
# A block of more jobs has squares, and a line above them that says what they are.
MAX_CELLS = 60
HEADER = 20.0
# The width of the bar of a group.
BAR = 184.0
# Jobs in the table, and names in one of its cells.
MAX_ROWS = 100
MAX_NAMES = 3
# Of a name in the table and in descriptions.
MAX_NAME = 100


class Segment(NamedTuple):
    """A part of the bar of a group."""

    state: str
    x: float
    width: float


class Box(NamedTuple):
    shape: Shape
    x: float
    y: float
    width: float
    height: float
    label: str
    detail: str
    """The second line."""
    states: dict[str, int]
    """How many of its jobs are in which state; of a job, one."""
    description: str
    """Everything about it, for the tooltip and for screen readers."""
    job_id: UUID | None = None
    """None: a group."""
    seconds: float | None = None
    since: datetime | None = None
    """When the job began, if it runs now."""
    critical: bool = False
    nested: bool = False
    outside: bool = False
    segments: Sequence[Segment] = ()

    @property
    def state(self) -> str:
        return next(iter(self.states))


class Frame(NamedTuple):
    """Around the jobs of a block."""

    x: float
    y: float
    width: float
    height: float
    label: str = ""
    """Of a block of squares."""
    detail: str = ""


class Line(NamedTuple):
    """A connection."""

    path: str
    critical: bool


class Row(NamedTuple):
    """A job in the table."""

    id: UUID
    label: str
    job_type: str
    state: str
    progress: int
    seconds: float | None
    since: datetime | None
    critical: bool
    names: str
    """Of the jobs that it waits for."""


class Drawing(NamedTuple):
    id: UUID
    """Of the workflow."""
    width: float
    height: float
    boxes: Sequence[Box]
    frames: Sequence[Frame]
    lines: Sequence[Line]
    rows: Sequence[Row]
    """The first jobs, those that have not completed first."""
    jobs: int
    states: dict[str, int]
    critical: int
    """How many jobs are on the critical path."""
    critical_seconds: float
    summarised: bool
    more: bool
    sampled: bool


def draw(graph: Graph) -> Drawing:
    path = critical_path(graph)
    seconds = durations(graph)
    found = items(graph)
    placed = layout([_size(each) for each in found], [each.after for each in found], [each.layer for each in found])
    painter = _Painter(graph, seconds, set(path.nodes))
    boxes: list[Box] = []
    frames: list[Frame] = []
    for item, place in zip(found, placed.places, strict=True):
        corner = Place(place.x + MARGIN, place.y + MARGIN)
        if item.kind is Kind.BLOCK:
            frames.append(painter.frame(item, corner))
            shape, cells = _grid(item).shape, _cells(item, corner)
            boxes += [painter.job(node, shape, at) for node, at in zip(item.nodes, cells, strict=True)]
        elif item.kind is Kind.GROUP:
            boxes.append(painter.group(item, corner))
        else:
            boxes.append(painter.job(item.nodes[0], Shape.JOB, corner))
    members = graph.members
    return Drawing(
        id=graph.id,
        width=placed.width + 2 * MARGIN,
        height=placed.height + 2 * MARGIN,
        boxes=boxes,
        frames=frames,
        lines=_lines(placed, found, path.nodes),
        rows=painter.rows(),
        jobs=len(members),
        states=states(members),
        critical=len(path.nodes),
        critical_seconds=path.seconds,
        summarised=any(each.kind is Kind.GROUP for each in found),
        more=graph.more,
        sampled=graph.sampled,
    )


def cut(text: str, most: int) -> str:
    """On one line."""
    text = printable(text[: 4 * MAX_NAME])
    return text if len(text) <= most else f"{text[: most - 1]}…"


class _Painter:
    def __init__(self, graph: Graph, seconds: Sequence[float | None], critical: set[int]) -> None:
        self.graph = graph
        self.seconds = seconds
        self.critical = critical

    def job(self, nth: int, shape: Shape, place: Place) -> Box:
        node = self.graph.nodes[nth]
        took = self.seconds[nth]
        label, job_type = node.label, node.job_type or ""
        words = [cut(label, MAX_NAME)]
        if job_type and job_type != label:
            words.append(cut(job_type, MAX_NAME))
        words.append(node.state)
        if took is not None:
            words.append(brief(took))
        if nth in self.critical:
            words.append("on the critical path")
        if node.outside:
            words.append("not a part of this workflow")
        return Box(
            shape,
            *place,
            *SIZES[shape],
            label=cut(label, LABELS[shape]),
            detail=cut(job_type if job_type != label else node.state, LABELS[Shape.JOB]),
            states={node.state: 1},
            description=", ".join(words),
            job_id=node.id,
            seconds=took,
            since=self._since(nth),
            critical=nth in self.critical,
            nested=node.job_type == "workflow",
            outside=node.outside,
        )

    def group(self, item: Item, place: Place) -> Box:
        nodes = [self.graph.nodes[nth] for nth in item.nodes]
        counts = in_order(Counter(each.state for each in nodes))
        label = group_label(nodes)
        longest = self._longest(item)
        words = ", ".join(f"{count(number)} {state}" for state, number in counts.items())
        critical = any(nth in self.critical for nth in item.nodes)
        return Box(
            Shape.GROUP,
            *place,
            *SIZES[Shape.GROUP],
            label=cut(label, LABELS[Shape.GROUP]),
            detail=f"\N{MULTIPLICATION SIGN} {count(len(nodes))}",
            states=counts,
            description=f"{count(len(nodes))} jobs, {cut(label, MAX_NAME)}: {words}"
            + (f"; the longest took {brief(longest)}" if longest is not None else "")
            + ("; on the critical path" if critical else ""),
            seconds=longest,
            critical=critical,
            outside=nodes[0].outside,
            segments=_segments(counts),
        )

    def frame(self, item: Item, place: Place) -> Frame:
        size = _size(item)
        if _grid(item).shape is Shape.CELL:
            return Frame(*place, *size)
        label = cut(group_label([self.graph.nodes[nth] for nth in item.nodes]), int(size.width / 14))
        longest = self._longest(item)
        return Frame(
            *place,
            *size,
            label=f"{label} \N{MULTIPLICATION SIGN} {count(len(item.nodes))}",
            detail="" if longest is None else f"longest {brief(longest)}",
        )

    def _longest(self, item: Item) -> float | None:
        return max((took for nth in item.nodes if (took := self.seconds[nth]) is not None), default=None)

    def rows(self) -> list[Row]:
        nodes = self.graph.nodes
        members = [nth for nth, each in enumerate(nodes) if not each.outside]
        order = {state: place for place, state in enumerate(states(nodes))}
        first = sorted(members, key=lambda nth: order[nodes[nth].state])[:MAX_ROWS]
        return [
            Row(
                nodes[nth].id,
                cut(nodes[nth].label, MAX_NAME),
                cut(nodes[nth].job_type or "", MAX_NAME),
                nodes[nth].state,
                nodes[nth].progress,
                self.seconds[nth],
                self._since(nth),
                nth in self.critical,
                _names([nodes[each] for each in self.graph.after[nth][: MAX_NAMES + 1]], len(self.graph.after[nth])),
            )
            for nth in first
        ]

    def _since(self, nth: int) -> datetime | None:
        if self.seconds[nth] is None or self.graph.nodes[nth].ended:
            return None
        return begun_at(self.graph, nth)


def _names(nodes: Sequence[Node], number: int) -> str:
    shown = ", ".join(cut(each.label, 40) for each in nodes[:MAX_NAMES])
    return shown if number <= MAX_NAMES else f"{shown} and {count(number - MAX_NAMES)} more"


def _segments(counts: dict[str, int]) -> list[Segment]:
    """Each state is at least 3 wide, so that one failure among thousands is visible."""
    total = sum(counts.values())
    widths = {state: max(3.0, BAR * number / total) for state, number in counts.items()}
    scale = BAR / sum(widths.values())
    found, x = [], 0.0
    for state, width in widths.items():
        found.append(Segment(state, round(x, 1), round(width * scale, 1)))
        x += width * scale
    return found


class _Grid(NamedTuple):
    """How the jobs of a block are arranged."""

    shape: Shape
    columns: int
    header: float


def _grid(item: Item) -> _Grid:
    number = len(item.nodes)
    if number > MAX_CELLS:
        return _Grid(Shape.SQUARE, ceil(sqrt(1.5 * number)), HEADER)
    return _Grid(Shape.CELL, 1 if number <= 8 else 2 if number <= 24 else 4, 0.0)


def _size(item: Item) -> Size:
    if item.kind is not Kind.BLOCK:
        return SIZES[Shape.JOB if item.kind is Kind.JOB else Shape.GROUP]
    shape, columns, header = _grid(item)
    width, height = (each + CELL_GAP for each in SIZES[shape])
    rows = ceil(len(item.nodes) / columns)
    return Size(columns * width - CELL_GAP + 2 * FRAME, rows * height - CELL_GAP + 2 * FRAME + header)


def _cells(item: Item, corner: Place) -> list[Place]:
    shape, columns, header = _grid(item)
    width, height = (each + CELL_GAP for each in SIZES[shape])
    x, y = corner.x + FRAME, corner.y + FRAME + header
    return [Place(x + nth % columns * width, y + nth // columns * height) for nth in range(len(item.nodes))]


def _lines(placed: Layout, found: Sequence[Item], path: Sequence[int]) -> list[Line]:
    item_of = {node: nth for nth, item in enumerate(found) for node in item.nodes}
    critical = {(item_of[one], item_of[other]) for one, other in pairwise(path)}
    lines = [Line(_path(points), connection in critical) for connection, points in placed.routes.items()]
    return sorted(lines, key=lambda each: each.critical)  # the critical ones are on top


def _path(points: Sequence[Place]) -> str:
    x, y = points[0]
    words = [f"M{x + MARGIN:g} {y + MARGIN:g}H{points[1].x + MARGIN:g}"]
    for nth in range(2, len(points), 2):
        (x, y), (next_x, next_y) = points[nth - 1], points[nth]
        bend = COLUMN_GAP / 2
        words.append(
            f"C{x + bend + MARGIN:g} {y + MARGIN:g} {next_x - bend + MARGIN:g} {next_y + MARGIN:g} "
            f"{next_x + MARGIN:g} {next_y + MARGIN:g}H{points[nth + 1].x + MARGIN:g}"
        )
    return "".join(words)
