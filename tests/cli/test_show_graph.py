"""treadle show of a workflow: its graph as text."""

import re
from typing import Any

import pytest
from psycopg import Connection

from tests.support.commands import json_output_of, output_of
from tests.support.graphs import fan, insert_workflow, tangle
from tests.support.screens import terminal
from tests.support.workers import drain
from treadle import Retries, Treadle, Workflow, ok_to_fail


@pytest.fixture(autouse=True)
def where(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)


def jobs_of(said: str) -> list[str]:
    """The lines of the section."""
    return said.partition("\njobs\n")[2].partition("\n\n")[0].splitlines()


def test_the_jobs_of_a_workflow_are_listed_layer_by_layer(app: Treadle) -> None:
    @app.job
    async def pay(order: int) -> str:
        return "receipt"

    @app.job(retry=Retries(0))
    async def book(order: int) -> None:
        raise ConnectionError("no answer")

    @app.job
    async def ship(order: int, receipt: str) -> None: ...

    flow = Workflow("order 7")
    paid = flow.add(pay.call(7), name="payment")
    booked = flow.add(book.call(7), name="book")
    flow.add(ship.call(7, paid.output), after=ok_to_fail(booked), name="shipment")
    handle = flow.enqueue()
    said = output_of("show", handle.id)
    assert re.search(r"name +order 7", said)
    lines = jobs_of(said)
    assert lines[0] == "  3 jobs: 2 pending, 1 blocked"
    assert lines[1:] == [
        f"    1   ○ pending            payment: pay  {handle.steps['payment'].id}",
        f"        ○ pending            book  {handle.steps['book'].id}",
        f"    2   ◌ blocked            shipment: ship  ← payment, book  {handle.steps['shipment'].id}",
    ]
    drain(app, concurrency=1)
    lines = jobs_of(output_of("show", handle.id))
    assert lines[0] == "  3 jobs: 1 failed, 2 completed"
    assert re.fullmatch(r"  critical path, marked \*: 0\.\ds in [12] jobs?", lines[1])
    assert re.search(r"✗ failed +0\.\ds  book  ", lines[3])


def test_the_critical_path_is_marked(connection: Connection[Any]) -> None:
    workflow, ids = insert_workflow(connection, [(), (0,), (0,), (1, 2)], names=["a", "b", "c", "d"])
    connection.execute("update jobs set finished_at = started_at + interval '9 seconds' where id = %s", [ids[2]])
    lines = jobs_of(output_of("show", workflow))
    assert lines[1] == "  critical path, marked *: 11s in 3 jobs"
    assert [line[29:30] for line in lines[2:] if line[6] == "*"] == ["a", "c", "d"]
    (found,) = json_output_of("show", workflow)
    assert found["graph"]["critical_path"] == [str(ids[nth]) for nth in (0, 2, 3)]
    assert found["graph"]["critical_seconds"] == pytest.approx(11.0)
    assert [each["after"] for each in found["graph"]["jobs"]][3] == [str(ids[1]), str(ids[2])]
    assert [each["layer"] for each in found["graph"]["jobs"]] == [0, 1, 1, 2]


def test_many_jobs_are_summarised(connection: Connection[Any]) -> None:
    workflow, ids = insert_workflow(connection, fan(498), types=["split", *(["resize"] * 498), "publish"])
    connection.execute("update jobs set status = 'failed' where id = any(%s)", [ids[10:25]])
    lines = jobs_of(output_of("show", workflow))
    assert len(lines) <= 60
    (group,) = [line for line in lines if "resize: " in line]
    assert "498 jobs" in group
    assert "15 failed, 483 completed  ← split" in group
    assert [str(ids[10]) in line for line in lines].count(True) == 1, "failed jobs are listed with their ids"
    assert "        and 5 more failed" in lines
    assert lines[-1] == "  Similar jobs are shown as one line; --full shows all"
    assert len(jobs_of(output_of("show", workflow, "--full"))) == 502


def test_500_jobs_of_any_shape_are_few_lines(connection: Connection[Any]) -> None:
    workflow, _ = insert_workflow(connection, tangle(500), types=[f"type {nth % 40}" for nth in range(500)])
    assert len(jobs_of(output_of("show", workflow))) <= 65


def test_a_terminal_gets_lines_that_fit(connection: Connection[Any]) -> None:
    workflow, _ = insert_workflow(connection, fan(3), names=["x" * 90, "\x1b[2Jred", "b", "c", "d"])
    with terminal("show", str(workflow), rows=60, columns=90) as screen:
        assert screen.wait_for_exit() == 0
        assert b"\x1b[2J" not in screen.raw
        assert all(len(line) <= 90 for line in screen.lines())
        assert "[2Jred: step" in screen.text()
    assert "\x1b" not in output_of("show", workflow)


def test_an_ascii_terminal_gets_replacement_characters(connection: Connection[Any]) -> None:
    workflow, _ = insert_workflow(connection, [(), (0,)], names=["a", "b"])
    with terminal("show", str(workflow), rows=60, columns=120, PYTHONIOENCODING="ascii") as screen:
        assert screen.wait_for_exit() == 0
        assert "+ completed    1.0s  b: step  <- a" in screen.text()


def test_secrets_in_names_are_masked(connection: Connection[Any]) -> None:
    workflow, _ = insert_workflow(connection, [()], names=["password=hunter2"])
    assert "hunter2" not in output_of("show", workflow)
    assert "hunter2" not in output_of("show", workflow, "--json")
    assert "hunter2" in output_of("show", workflow, "--show-secrets")
