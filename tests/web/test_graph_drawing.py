"""The layout and the shapes of graphs."""

import re
import time
from collections.abc import Sequence
from itertools import combinations

import pytest

from tests.support.graphs import fan, graph, node, plain, tangle
from treadle.operations.critical_path import layers
from treadle.web.dashboard.pages import graph_layout
from treadle.web.dashboard.pages.graph_drawing import Drawing, Shape, cut, draw
from treadle.web.dashboard.pages.graph_layout import Size, layout

CHAIN: list[Sequence[int]] = [(), *((nth,) for nth in range(499))]
SHAPES: dict[str, Sequence[Sequence[int]]] = {
    "fan": fan(498),
    "fan of cells": fan(40),
    "chain": CHAIN,
    "chains": [() if nth % 5 == 0 else (nth - 1,) for nth in range(500)],
    "tangle": tangle(500),
    "dense": [*([()] * 250), *([tuple(range(250))] * 250)],
    "alone": [()] * 500,
}


def overlapping(drawing: Drawing) -> int:
    """How many pairs of boxes overlap."""
    found = 0
    for one, other in combinations(drawing.boxes, 2):
        apart = (
            one.x + one.width <= other.x
            or other.x + other.width <= one.x
            or one.y + one.height <= other.y
            or other.y + other.height <= one.y
        )
        found += not apart
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_the_boxes_of_500_jobs_do_not_overlap(shape: str) -> None:
    drawing = draw(plain(SHAPES[shape]))
    assert len(drawing.boxes) == len(SHAPES[shape])
    assert not drawing.summarised
    assert overlapping(drawing) == 0
    for box in drawing.boxes:
        assert 0 <= box.x <= drawing.width - box.width
        assert 0 <= box.y <= drawing.height - box.height


@pytest.mark.long
def test_ten_thousand_jobs_are_drawn_in_bounded_time() -> None:
    """It takes 0.1 to 0.4 s on one core; the test allows for a busy machine."""
    for after in (fan(10_000), tangle(10_000), [(), *((nth,) for nth in range(9_999))]):
        known = plain(after)
        began = time.process_time()
        drawing = draw(known)
        assert time.process_time() - began < 4
        assert drawing.summarised
        assert len(drawing.boxes) <= 600
        assert overlapping(drawing) == 0
        assert sum(sum(box.states.values()) for box in drawing.boxes) == len(after)


def test_connections_cross_no_box() -> None:
    """A connection that passes a layer has a place of its own there."""
    sizes = [Size(100.0, 40.0)] * 4
    after = [(), (0,), (0,), (1, 2, 0)]
    found = layout(sizes, after, layers(after))
    route = found.routes[0, 3]
    assert len(route) == 6
    begin, end = route[2:4]
    assert begin.y == end.y
    for nth in (1, 2):
        place = found.places[nth]
        assert not place.y <= begin.y <= place.y + 40


def test_a_chain_is_straight_and_a_fan_symmetrical() -> None:
    chain = draw(plain(CHAIN[:20]))
    assert len({box.y for box in chain.boxes}) == 1
    spread = draw(plain(fan(5)))
    middles = [box.y + box.height / 2 for box in spread.boxes]
    assert middles[0] == middles[-1] == middles[3]


def test_the_order_within_layers_avoids_crossings() -> None:
    """Five pairs, given crosswise."""
    after = [*([()] * 5), *((4 - nth,) for nth in range(5))]
    found = layout([Size(10.0, 10.0)] * 10, after, layers(after))
    for source, target in found.routes:
        assert found.places[source].y == found.places[target].y


def test_too_many_passages_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_layout, "MAX_PASSAGES", 0)
    assert overlapping(draw(plain(tangle(100)))) == 0


def test_the_critical_path_is_emphasised() -> None:
    known = graph([node(0, 3), node(1, 2), node(2, 4), node(3, 1)], [(), (0,), (0,), (1, 2)])
    drawing = draw(known)
    assert [box.critical for box in drawing.boxes] == [True, False, True, True]
    assert (drawing.critical, drawing.critical_seconds) == (3, 8.0)
    assert [line.critical for line in drawing.lines] == [False, False, True, True], "they are drawn last, on top"


def test_a_group_shows_how_many_jobs_are_in_which_state() -> None:
    nodes = [node(nth, 1.0 + nth / 10, "failed" if nth == 7 else "completed", job_type="resize") for nth in range(700)]
    (box,) = draw(graph(nodes, [()] * 700)).boxes
    assert box.shape is Shape.GROUP
    assert box.states == {"failed": 1, "completed": 699}
    assert box.description == "700 jobs, resize: 1 failed, 699 completed; the longest took 1m 11s; on the critical path"
    assert box.segments[0].width >= 2.9, "one failure among many is visible"
    assert sum(each.width for each in box.segments) == pytest.approx(184, abs=0.2)


def test_the_table_lists_what_has_not_completed_first() -> None:
    nodes = [node(nth, 1.0) for nth in range(150)] + [node(150, 1.0, "failed"), node(151, None, "pending")]
    rows = draw(graph(nodes, [()] * 150 + [tuple(range(150)), ()])).rows
    assert len(rows) == 100
    assert [row.state for row in rows[:3]] == ["failed", "pending", "completed"]
    assert rows[0].names == "step, step, step and 147 more"


def test_long_names_and_control_characters_are_cut() -> None:
    name = "\x1b[2J<b>\u202e" + "w" * 500
    (box,) = draw(graph([node(0, 1.0, name=name)], [()])).boxes
    assert len(box.label) == 20
    assert box.label.startswith("[2J<b> www")
    assert len(box.description) < 200
    assert not re.search("[\x00-\x1f\u202e]", box.label + box.description)
    assert cut("x" * 20, 20) == "x" * 20


def test_an_empty_graph() -> None:
    drawing = draw(graph([], []))
    assert (drawing.jobs, drawing.boxes, drawing.critical) == (0, [], 0)
