"""The graph of a workflow: layers, durations, the critical path, and groups."""

from datetime import timedelta

import pytest

from tests.support.graphs import START, fan, graph, node, plain, tangle
from treadle.operations.critical_path import critical_path, durations, layers, topological
from treadle.operations.graph_groups import Item, Kind, items
from treadle.words.graph import Node, states


def test_a_job_is_in_the_layer_after_the_last_of_those_that_it_waits_for() -> None:
    assert layers([(), (0,), (0, 1), (), (2, 3)]) == [0, 1, 2, 0, 3]


def test_jobs_that_wait_for_each_other_have_layers_too() -> None:
    """Only rows that were written by hand can."""
    assert sorted(topological([(1,), (0,), (2,), (0, 2)])) == [0, 1, 2, 3]
    assert len(layers([(1,), (0,), (2,), (0, 2)])) == 4
    assert critical_path(plain([(1,), (0,)])).seconds > 0
    assert items(plain([(1,), (0,)]))


def test_the_critical_path_is_the_one_with_the_largest_sum() -> None:
    """a (3) → b (2) → d (1), and a → c (4) → d, and e (7) alone: 3 + 4 + 1 is more than 7."""
    known = graph([node(0, 3), node(1, 2), node(2, 4), node(3, 1), node(4, 7)], [(), (0,), (0,), (1, 2), ()])
    assert critical_path(known) == ((0, 2, 3), 8.0)


def test_until_the_workflow_has_ended_the_critical_path_has_the_jobs_that_ran_or_run_now() -> None:
    known = graph(
        [node(0, 3), node(1, 2), node(2, 0.0, "running"), node(3, None, "pending", blocked=True)],
        [(), (0,), (0,), (1, 2)],
        at=START + timedelta(seconds=9),
    )
    assert durations(known) == [3.0, 2.0, 9.0, None]
    assert critical_path(known) == ((0, 2), 12.0)


def test_a_workflow_in_which_nothing_ran_has_no_critical_path() -> None:
    known = graph([node(0, None, "pending"), node(1, None, "pending", blocked=True)], [(), (0,)])
    assert critical_path(known) == ((), 0.0)
    assert states(known.nodes) == {"pending": 1, "blocked": 1}


def test_a_job_that_waits_for_its_next_attempt_has_no_duration() -> None:
    assert durations(graph([node(0, 5, "pending", finished_at=None)], [()])) == [None]


@pytest.mark.parametrize("job_type", ["workflow", "signal"])
def test_what_no_worker_runs_begins_when_the_jobs_before_it_have_ended(job_type: str) -> None:
    nested = node(1, None, "pending", job_type=job_type)
    known = graph([node(0, 3), nested], [(), (0,)], at=START + timedelta(seconds=10))
    assert durations(known) == [3.0, 7.0]
    assert critical_path(known) == ((0, 1), 10.0)
    ended = nested._replace(status="completed", finished_at=START + timedelta(seconds=5))
    assert durations(known._replace(nodes=[known.nodes[0], ended])) == [3.0, 2.0]
    waiting = graph([node(0, 0, "running"), nested], [(), (0,)])
    assert durations(waiting)[1] is None


def test_jobs_outside_of_the_workflow_are_not_on_its_critical_path() -> None:
    known = graph([node(0, 1), node(1, 100, outside=True)], [(1,), ()])
    assert critical_path(known) == ((0,), 1.0)


def test_a_graph_with_a_later_clock_is_the_same() -> None:
    known = plain(fan(3))
    assert known._replace(at=START + timedelta(days=1)).is_same(known)
    assert not known._replace(more=True).is_same(known)
    assert not known.is_same(None)


def test_a_node_is_called_by_its_step_its_workflow_or_its_type() -> None:
    assert node(0, name="pay", job_type="charge").label == "pay"
    assert node(0, title="order 7", job_type="workflow").label == "order 7"
    assert node(0, job_type="charge").label == "charge"
    assert (Node(node(0).id).label, Node(node(0).id).state) == ("deleted", "deleted")


def kinds(found: list[Item]) -> list[tuple[str, int]]:
    return [(each.kind.value, len(each.nodes)) for each in found]


def test_jobs_between_the_same_jobs_are_a_block() -> None:
    assert kinds(items(plain(fan(8)))) == [("job", 1), ("block", 8), ("job", 1)]
    assert kinds(items(plain(fan(3)))) == [("job", 1)] * 5
    assert kinds(items(plain(fan(8)), blocks=False)) == [("job", 1)] * 10
    assert kinds(items(plain([()] * 8))) == [("job", 1)] * 8, "nothing says that they belong together"


def test_many_jobs_are_grouped_by_type_layer_and_what_they_wait_for() -> None:
    types = ["split", *(["resize", "tag"] * 5_000), "publish"]
    found = items(plain(fan(10_000), types))
    assert kinds(found) == [("job", 1), ("group", 5_000), ("group", 5_000), ("job", 1)]
    assert [each.after for each in found] == [(), (0,), (0,), (1, 2)]
    assert [each.layer for each in found] == [0, 1, 1, 2]


def test_a_thousand_chains_are_one_chain_of_groups() -> None:
    after = [() if nth % 10 == 0 else (nth - 1,) for nth in range(10_000)]
    found = items(plain(after, [f"step {nth % 10}" for nth in range(10_000)]))
    assert kinds(found) == [("group", 1_000)] * 10
    assert [each.after for each in found] == [(), *((nth,) for nth in range(9))]


@pytest.mark.parametrize(
    ("after", "types"),
    [
        ([(), *((nth,) for nth in range(9_999))], 1),
        ([(), *((nth,) for nth in range(9_999))], 10_000),
        (tangle(10_000), 1),
        (tangle(10_000), 50),
        ([()] * 10_000, 10_000),
        ([*([()] * 100), *([tuple(range(100))] * 900)], 1_000),
    ],
    ids=["chain", "chain of many types", "tangle", "tangle of many types", "many types", "dense"],
)
@pytest.mark.parametrize("most", [600, 60])
def test_any_graph_becomes_small_enough(after: list[tuple[int, ...]], types: int, most: int) -> None:
    known = plain(after, [f"type {nth % types}" for nth in range(len(after))])
    found = items(known, most)
    assert len(found) <= most
    assert sum(len(each.after) for each in found) <= 3_000
    # No job is lost or shown twice, and connections lead to later layers.
    assert sorted(nth for each in found for nth in each.nodes) == list(range(len(after)))
    assert all(found[source].layer < each.layer for each in found for source in each.after)


def test_six_hundred_jobs_are_not_grouped() -> None:
    assert {each.kind for each in items(plain(tangle(600)))} == {Kind.JOB}
