"""The short form of `python -m chaos.workflows`, and what its checks find."""

import threading
from collections import Counter
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from chaos.ledger import FOLDER, Record
from chaos.workflow_plans import CANCELLED, COMPLETED, ENDED, FAILED, SKIPPED, Node, Plan
from chaos.workflows import Checker, Job, Storm


@pytest.mark.own_database
@pytest.mark.long
def test_workflows_end_as_planned_when_workers_are_killed(
    own_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, "")  # the storm sets it
    storm = Storm(own_url, tmp_path, seed=7, programs=1, most=40)
    over = threading.Event()
    sender = threading.Thread(target=storm.send_signals, args=(over,))
    try:
        sender.start()
        storm.enqueue(10, over)
        for _ in range(2):
            storm.harm()
            storm.wait(1.0)
        over.set()
        sender.join()
        storm.finish()
        problems = storm.verdict()
    finally:
        over.set()
        sender.join()
        storm.close()
    assert not problems, "\n".join(problems)


PLAN = Plan(
    "graph",
    [
        Node("a", "step", "fail", undo=True),
        Node("b", "step", edges=[("a", COMPLETED)]),
        Node("c", "step", edges=[("a", ENDED)], undo=True),
        Node("d", "step", edges=[("c", FAILED)]),
        Node("e", "step", edges=[("d", COMPLETED)]),
        Node("f", "nested", edges=[("d", COMPLETED)], inner=Plan("inner", [Node("x", "step")])),
        Node("g", "map", edges=[("c", COMPLETED)], fates=["complete", "fail"]),
    ],
)
OUTCOMES = {"a": FAILED, "b": CANCELLED, "c": COMPLETED, "d": SKIPPED, "e": SKIPPED, "f": SKIPPED, "g": FAILED}


def test_how_steps_must_end() -> None:
    assert PLAN.outcomes() == OUTCOMES
    assert PLAN.whole() == FAILED
    assert Plan("fine", [Node("a", "step", "retry"), Node("b", "adding", fates=["complete"])]).whole() == COMPLETED
    assert Plan("adds", [Node("b", "adding", fates=["fail"])]).whole() == FAILED


class Run:
    """A run of PLAN as it should be."""

    def __init__(self) -> None:
        self.id, self.undone = uuid4(), uuid4()
        self.ids = {name: uuid4() for name in OUTCOMES}
        self.outcomes = dict(OUTCOMES)
        self.whole = FAILED
        self.elements = 2
        self.callbacks = {"on_complete": COMPLETED, "on_success": CANCELLED, "on_failure": COMPLETED}
        self.undo_of = {self.undone: "graph c"}
        self.times = {"c": (1.0, 2.0), "g": (3.0, 4.0)}

    def problems(self) -> list[str]:
        kinds = {"f": "workflow", "g": "workflow"}
        jobs = [
            Job(job_id, self.id, name, kinds.get(name, "step"), self.outcomes[name], 1.0)
            for name, job_id in self.ids.items()
        ]
        elements = [Job(uuid4(), self.ids["g"], None, "step", COMPLETED, 1.0) for _ in range(self.elements)]
        records = [record for name, times in self.times.items() if name != "g" for record in ran(self.ids[name], times)]
        records += [record for each in elements for record in ran(each.id, self.times["g"])]
        statuses = {self.id: self.whole, self.undone: COMPLETED}
        checker = Checker({"graph": PLAN}, {self.id: "graph"}, jobs + elements, statuses, records)
        return checker.problems(Counter(("graph", *each) for each in self.callbacks.items()), self.undo_of)


def ran(job_id: UUID, times: tuple[float, float]) -> list[Record]:
    start, end = times
    return [
        {"what": "start", "at": start, "id": str(job_id)},
        {"what": "end", "at": end, "id": str(job_id), "ok": True},
    ]


def test_a_run_as_it_should_be() -> None:
    assert Run().problems() == []


def test_a_step_that_ends_differently_is_found() -> None:
    run = Run()
    run.outcomes["b"] = COMPLETED
    assert run.problems() == ["graph b is completed, not cancelled"]


def test_a_workflow_that_ends_differently_is_found() -> None:
    run = Run()
    run.whole = COMPLETED
    assert run.problems() == ["graph is completed, not failed"]


def test_a_step_that_begins_too_early_is_found() -> None:
    run = Run()
    run.times["g"] = (1.5, 4.0)
    assert run.problems() == ["graph g began before c had completed"]


def test_a_missing_element_is_found() -> None:
    run = Run()
    run.elements = 1
    assert run.problems() == ["graph g has 1 jobs, not 2"]


def test_a_callback_that_did_not_run_is_found() -> None:
    run = Run()
    run.callbacks["on_failure"] = SKIPPED
    assert "on_failure is not completed, once" in run.problems()[0]


def test_what_was_not_undone_is_found() -> None:
    run = Run()
    run.undo_of = {}
    assert run.problems() == ["undone: [], not ['graph c']"]
