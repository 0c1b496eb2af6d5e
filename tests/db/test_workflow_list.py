"""The list of workflows: their states, filters, pages, and the cost."""

import json
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.support.buffers import buffers
from treadle import JobQueue, Treadle
from treadle.db.queries import dashboard as queries
from treadle.db.queries.dashboard import find_workflows
from treadle.words.errors import InvalidArgument


def enqueue(connection: Connection[Any], name: str, jobs: int = 3, **options: Any) -> UUID:
    blocks = [{"job_type": "step", "data": ["{}"] * jobs, "part": 0}]
    rows = connection.execute(
        "select id from enqueue_workflow(%s, %s, %s)", [name, json.dumps(blocks), json.dumps(options)]
    ).fetchall()
    found: UUID = rows[-1][0]
    return found


def states(app: Treadle, **given: Any) -> dict[str | None, str]:
    return {each.name: each.state for each in app.database.read(find_workflows(**given)).workflows}


def test_a_workflow_runs_from_its_first_job_to_its_end(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    enqueue(connection, "films")
    assert states(app) == {"films": "waiting"}
    jobs = queue.claim(["step"], 3)
    queue.start(jobs[0])
    assert states(app) == {"films": "running"}
    queue.complete(jobs[0])
    (row,) = app.database.read(find_workflows()).workflows
    assert (row.state, row.ended, row.jobs, row.finished_at) == ("running", 1, 3, None)
    for job in jobs[1:]:
        queue.complete(job)
    for _ in range(3):
        connection.execute("select tick('0')")
    (row,) = app.database.read(find_workflows()).workflows
    assert (row.state, row.ended, row.completed, row.progress) == ("completed", 3, 3, 100)
    assert row.finished_at is not None


def test_lists_are_filtered_by_state_and_name(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    enqueue(connection, "Monthly invoices", 1)
    connection.execute("update jobs set max_attempts = 1 where job_type = 'step'")
    queue.fail(queue.claim(["step"])[0], "no")
    for _ in range(3):
        connection.execute("select tick('0')")
    enqueue(connection, "films")
    assert states(app) == {"films": "waiting", "Monthly invoices": "failed"}
    assert list(states(app)) == ["films", "Monthly invoices"]
    assert states(app, state="failed") == {"Monthly invoices": "failed"}
    assert states(app, name="INVOICE") == {"Monthly invoices": "failed"}
    assert states(app, state="running") == {}
    assert list(states(app, names=False)) == [None]
    with pytest.raises(InvalidArgument, match="state must be one of waiting, running, completed, failed, cancelled"):
        find_workflows("blocked")


def test_pages_follow_each_other(app: Treadle, connection: Connection[Any]) -> None:
    ids = [enqueue(connection, f"flow {n}", 1) for n in range(7)]
    found, after = [], None
    for _ in range(10):
        listed = app.database.read(find_workflows(after=after, limit=3))
        found += [each.id for each in listed.workflows]
        after = listed.next
        if after is None:
            break
    assert found == ids[::-1]


def test_a_filtered_list_says_how_many_it_has_examined(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "LOOKED_AT", 4)
    ids = [enqueue(connection, f"flow {n}", 1) for n in range(6)]
    first = app.database.read(find_workflows(name="flow 0"))
    assert (first.workflows, first.examined, first.next) == ([], 4, ids[2])
    second = app.database.read(find_workflows(name="flow 0", after=first.next))
    assert ([each.id for each in second.workflows], second.examined, second.next) == ([ids[0]], None, None)


def test_nested_workflows_are_not_listed(app: Treadle, connection: Connection[Any]) -> None:
    blocks = [
        {"job_type": "step", "data": ["{}"], "part": 1},
        {"job_type": "workflow", "data": ['{"name": "inner"}'], "part": 0, "workflow": 1},
    ]
    connection.execute("select enqueue_workflow('outer', %s)", [json.dumps(blocks)])
    assert list(states(app)) == ["outer"]
    assert set(states(app, nested=True)) == {"outer", "inner"}


@pytest.mark.fresh_database
@pytest.mark.long
def test_the_cost_of_a_list_is_bounded(connection: Connection[Any]) -> None:
    def cost(**given: Any) -> int:
        query = find_workflows(**given)
        return buffers(connection, query.bound("treadle"), query.params)

    connection.execute("select enqueue_workflow('films', %s) from generate_series(1, 600)", [BLOCKS])
    connection.execute("vacuum analyze jobs, workflows, dependencies, member_changes")
    before = [cost(), cost(state="failed"), cost(name="nothing")]
    connection.execute("select enqueue_workflow('films', %s) from generate_series(1, 1200)", [BLOCKS])
    connection.execute("vacuum analyze jobs, workflows, dependencies, member_changes")
    after = [cost(), cost(state="failed"), cost(name="nothing")]
    for less, more in zip(before, after, strict=True):
        assert more <= 1.5 * less + 200, (before, after)


BLOCKS = json.dumps([{"job_type": "step", "data": ["{}"] * 2, "part": 0}])
