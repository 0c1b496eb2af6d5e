"""Places the boxes of a layered graph: each layer is a column, from left to right.

The steps are those of Sugiyama, Tagawa and Toda (1981). A connection that passes a layer gets a place of its own there,
so that it crosses no box; connections that begin at the same box share it. The order within the layers is improved by
barycentres. Then every box moves as close to its neighbours as the order and the gaps allow: that is an isotonic
regression, with an exact solution in linear time.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

COLUMN_GAP = 44.0
ROW_GAP = 10.0
# The height of the place of a connection that passes a layer.
PASSAGE = 4.0
ORDER_ROUNDS = 4
PLACE_ROUNDS = 6
# If there were more passages than this, connections may pass behind boxes.
MAX_PASSAGES = 10_000


class Size(NamedTuple):
    width: float
    height: float


class Place(NamedTuple):
    x: float
    y: float


class Layout(NamedTuple):
    width: float
    height: float
    places: list[Place]
    """The upper left corner of each box."""
    routes: dict[tuple[int, int], list[Place]]
    """For each connection, its points: pairs of a point where a horizontal line begins, and one where it ends."""


def layout(sizes: Sequence[Size], after: Sequence[Sequence[int]], layers: Sequence[int]) -> Layout:
    """`after` has, for each box, the boxes in earlier layers that it is connected with."""
    columns = _Columns(sizes, after, layers)
    columns.order()
    centres = columns.centres()
    top = min((y - height / 2 for y, height in zip(centres, columns.heights, strict=True)), default=0.0)
    bottom = max((y + height / 2 for y, height in zip(centres, columns.heights, strict=True)), default=0.0)
    left, right = columns.edges()
    places, routes = [], {}
    for nth, size in enumerate(sizes):
        x = left[layers[nth]] + (right[layers[nth]] - left[layers[nth]] - size.width) / 2
        places.append(Place(round(x, 1), round(centres[nth] - top - size.height / 2, 1)))
    for (source, target), chain in columns.chains.items():
        points = []
        for each in chain:
            y, layer = round(centres[each] - top, 1), columns.layers[each]
            begin, end = round(left[layer], 1), round(right[layer], 1)
            if each == source:
                begin = round(places[source].x + sizes[source].width, 1)
            elif each == target:
                end = places[target].x
            points += [Place(begin, y), Place(end, y)]
        routes[source, target] = points
    return Layout(round(right[-1], 1) if right else 0.0, round(bottom - top, 1), places, routes)


class _Columns:
    """The boxes and passages of each layer, in their order. Passages have numbers after those of the boxes."""

    def __init__(self, sizes: Sequence[Size], after: Sequence[Sequence[int]], layers: Sequence[int]) -> None:
        self.layers = list(layers)
        self.heights = [size.height for size in sizes]
        self.widths = [0.0] * (max(layers, default=-1) + 1)
        for size, layer in zip(sizes, layers, strict=True):
            self.widths[layer] = max(self.widths[layer], size.width)
        self.chains: dict[tuple[int, int], list[int]] = {}
        self._passages: dict[tuple[int, int], int] = {}
        self.before: list[list[int]] = [[] for _ in sizes]
        self.following: list[list[int]] = [[] for _ in sizes]
        connections = [(source, nth) for nth, sources in enumerate(after) for source in sources]
        farthest: dict[int, int] = {}
        for source, target in connections:
            farthest[source] = max(farthest.get(source, 0), layers[target])
        passages = sum(last - layers[source] - 1 for source, last in farthest.items())
        for source, target in connections:
            between = range(layers[source] + 1, layers[target]) if passages <= MAX_PASSAGES else ()
            chain = [source, *(self._passage(source, layer) for layer in between), target]
            self.chains[source, target] = chain
            for one, other in pairwise(chain):
                if self.layers[other] - self.layers[one] == 1 and one not in self.before[other]:
                    self.before[other].append(one)
                    self.following[one].append(other)
        self.columns: list[list[int]] = [[] for _ in self.widths]
        for nth, layer in enumerate(self.layers):
            self.columns[layer].append(nth)

    def _passage(self, source: int, layer: int) -> int:
        known = self._passages.setdefault((source, layer), len(self.layers))
        if known < len(self.layers):
            return known
        self.layers.append(layer)
        self.heights.append(PASSAGE)
        self.before.append([])
        self.following.append([])
        return known

    def edges(self) -> tuple[list[float], list[float]]:
        """The left and the right edge of each column."""
        left, right, x = [], [], 0.0
        for width in self.widths:
            left.append(x)
            right.append(x + width)
            x += width + COLUMN_GAP
        return left, right

    def order(self) -> None:
        best, fewest = [list(each) for each in self.columns], self._crossings()
        for nth in range(2 * ORDER_ROUNDS):
            if fewest == 0:
                break
            down = nth % 2 == 0
            numbers = range(1, len(self.columns)) if down else range(len(self.columns) - 2, -1, -1)
            for layer in numbers:
                self._sort(layer, layer - 1 if down else layer + 1, self.before if down else self.following)
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(each) for each in self.columns], crossings
        self.columns = best

    def _sort(self, layer: int, beside: int, neighbours: Sequence[Sequence[int]]) -> None:
        position = {each: nth for nth, each in enumerate(self.columns[beside])}
        column = self.columns[layer]
        # A box without neighbours stays where it is among the others.
        scale = len(position) / max(1, len(column))
        keys = {
            each: sum(position[one] for one in neighbours[each]) / len(neighbours[each])
            if neighbours[each]
            else nth * scale
            for nth, each in enumerate(column)
        }
        column.sort(key=keys.__getitem__)

    def _crossings(self) -> int:
        found = 0
        for layer in range(1, len(self.columns)):
            position = {each: nth for nth, each in enumerate(self.columns[layer - 1])}
            seen: list[int] = []
            for each in self.columns[layer]:
                sources = [position[one] for one in self.before[each]]
                found += sum(len(seen) - bisect_left(seen, one + 1) for one in sources)
                for one in sources:
                    insort(seen, one)
        return found

    def centres(self) -> list[float]:
        """The vertical centre of each box and passage."""
        y = [0.0] * len(self.layers)
        for column in self.columns:
            self._place(column, y, [0.0] * len(column))
        for nth in range(PLACE_ROUNDS):
            columns = self.columns if nth % 2 == 0 else self.columns[::-1]
            for column in columns:
                wanted = []
                for each in column:
                    near = self.before[each] if nth % 2 == 0 else self.following[each]
                    near = near or self.before[each] or self.following[each]
                    wanted.append(sum(y[one] for one in near) / len(near) if near else y[each])
                self._place(column, y, wanted)
        return y

    def _place(self, column: Sequence[int], y: list[float], wanted: Sequence[float]) -> None:
        """As close to the wanted positions as the order and the gaps allow: the sum of squares is the smallest."""
        offset, offsets = 0.0, []
        for nth, each in enumerate(column):
            if nth:
                last = column[nth - 1]
                offset += (self.heights[last] + self.heights[each]) / 2 + ROW_GAP
            offsets.append(offset)
        # Runs that touch each other: the sum of what their members want, and how many they are.
        runs: list[tuple[float, int]] = []
        for nth in range(len(column)):
            total, count = wanted[nth] - offsets[nth], 1
            while runs and runs[-1][0] / runs[-1][1] >= total / count:
                earlier, more = runs.pop()
                total, count = total + earlier, count + more
            runs.append((total, count))
        nth = 0
        for total, count in runs:
            for _ in range(count):
                y[column[nth]] = total / count + offsets[nth]
                nth += 1
