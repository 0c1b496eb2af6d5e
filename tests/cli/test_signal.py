"""treadle signal."""

from typing import Any

import pytest
from psycopg import Connection

from tests.support.commands import json_output_of, output_of, run_treadle
from tests.support.workers import drain
from treadle import Status, Treadle, Workflow, WorkflowHandle, wait_for_signal


@pytest.fixture(autouse=True)
def where(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)


@pytest.fixture
def handle(app: Treadle) -> WorkflowHandle:
    @app.job
    async def write() -> None: ...

    flow = Workflow()
    written = flow.add(write.call())
    flow.add(wait_for_signal("approved"), name="approval", after=written)
    enqueued = flow.enqueue()
    drain(app)
    return enqueued


def test_a_signal_is_sent_and_is_in_the_audit(handle: WorkflowHandle, connection: Connection[Any]) -> None:
    assert output_of("why", handle.steps["approval"].id).startswith("The job waits for the signal approved since ")
    arguments = ("signal", handle.id, "approved", '{"by": "ann"}', "--actor", "me")
    assert output_of(*arguments) == "Sent the signal approved.\n"
    step = handle.steps["approval"]
    assert (step.status(), step.job().result) == (Status.COMPLETED, {"by": "ann"})
    found = connection.execute("select actor, action, job_id, details from audit").fetchall()
    assert found == [("me", "signal", step.id, {"signal": "approved"})]
    late = run_treadle(*arguments)
    assert late.exit_code == 1
    assert late.stderr == "Too late: the step has already received the signal approved, or has ended.\n"


def test_json(handle: WorkflowHandle) -> None:
    assert json_output_of("signal", handle.id, "approved", "--json") == [
        {"id": str(handle.id), "signal": "approved", "taken": True}
    ]


def test_mistakes_are_explained(handle: WorkflowHandle) -> None:
    unknown = run_treadle("signal", handle.id, "aproved")
    assert unknown.exit_code == 1
    assert unknown.stderr == f"Error: no step of workflow {handle.id} waits for the signal 'aproved'\n"
    invalid = run_treadle("signal", handle.id, "approved", "{by: ann}")
    assert invalid.exit_code == 2
    assert "VALUE must be JSON, such as" in invalid.stderr
