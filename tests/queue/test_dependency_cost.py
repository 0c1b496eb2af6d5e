"""What jobs that wait for others cost, counted in buffers and rows."""

from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.buffers import buffers
from tests.support.waiting import wait_for_floor_margin
from treadle import JobQueue
from treadle.db.queries.workflows import count_members

pytestmark = pytest.mark.fresh_database

CLAIM = "select from claim_jobs('w', '{waits,other}', 10)"


def moves(connection: Connection[Any]) -> int:
    """How many rows of dependencies were changed."""
    connection.execute("select pg_stat_force_next_flush()")
    row = connection.execute(
        "select n_tup_upd from pg_stat_user_tables where relid = 'dependencies'::regclass"
    ).fetchone()
    assert row
    return int(row[0])


def test_jobs_that_wait_cost_claims_nothing(connection: Connection[Any], queue: JobQueue) -> None:
    queue.enqueue_many("other", [{}] * 500)
    wait_for_floor_margin(connection)
    before = buffers(connection, CLAIM, rows=10, tick=True)
    first = queue.enqueue("waits", delay="1h")
    queue.enqueue_many("waits", [{}] * 3000, after=first, priority=150)
    wait_for_floor_margin(connection)
    for _ in range(3):
        connection.execute("select tick('0')")
    connection.execute("vacuum lanes")
    assert buffers(connection, CLAIM, rows=10, tick=True) <= 1.2 * before


def test_a_job_that_is_not_watched_ends_at_no_cost(connection: Connection[Any], queue: JobQueue) -> None:
    """A job after many others watches one of them. The others end without a row being changed for it."""
    first = queue.enqueue_many("a", [{}] * 300)
    last = queue.enqueue("b", after=first)
    rows = sorted(queue.claim(["a"], 300), key=lambda row: row.id)
    before = moves(connection)
    queue.complete_many(rows[1:])
    assert moves(connection) == before
    assert connection.execute("select count(*) from dependency_checks").fetchone() == (0,)
    queue.complete(rows[0])
    assert [row.id for row in queue.claim(["b"])] == [last]


def test_what_is_decided_at_commit_leaves_nothing_to_read(connect: Connect, queue: JobQueue) -> None:
    """Not even to claims and ticks while a snapshot is open."""
    connection, reader = connect(), connect()
    advance = "select advance_waiting(1000)"
    before = buffers(connection, advance)
    with reader.transaction():
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select count(*) from jobs")
        for _ in range(30):
            first = queue.enqueue_many("a", [{}] * 10)
            last = [queue.enqueue("b", after=each) for each in first]
            queue.complete_many(queue.claim(["a"], 10))
            assert {row.id for row in queue.claim(["b"], 10)} == set(last)
        assert buffers(connection, advance) <= before


def batch_of(connection: Connection[Any], queue: JobQueue, jobs: int) -> UUID:
    row = connection.execute("select id from enqueue_workflow('batch', '[]', '{\"is_open\": true}')").fetchone()
    assert row
    queue.enqueue_many("a", [{}] * jobs, workflow=row[0])
    connection.execute("select close_workflow(%s)", [row[0]])
    batch: UUID = row[0]
    return batch


def test_many_completions_are_one_row_for_their_batch(connection: Connection[Any], queue: JobQueue) -> None:
    batch = batch_of(connection, queue, 101)
    connection.execute("select roll_up_workflows('-infinity')")
    queue.complete_many(queue.claim(["a"], 100))
    assert connection.execute("select completed from member_changes").fetchall() == [(100,)]
    queue.complete_many(queue.claim(["a"], 1))
    assert queue.get(batch).status == "completed"


def test_completions_that_are_counted_together_call_no_trigger_for_each_job(
    connection: Connection[Any], queue: JobQueue
) -> None:
    batch_of(connection, queue, 101)
    rows = queue.claim(["a"], 100)
    with connection.transaction():
        connection.execute("set local track_functions = 'all'")
        connection.execute(
            "select complete_jobs(%s, %s, %s)",
            [[row.id for row in rows], [row.lease for row in rows], [row.worker_id for row in rows]],
        )
        calls = connection.execute("select pg_stat_get_xact_function_calls('job_ended'::regproc)").fetchone()
    assert queue.get(rows[0].id).status == "completed"
    # The batch watches one of its jobs.
    assert calls in [(None,), (1,)]


def test_what_a_batch_costs_does_not_depend_on_how_many_jobs_have_ended(
    connection: Connection[Any], queue: JobQueue
) -> None:
    costs = []
    for jobs in (10, 3000):
        batch = batch_of(connection, queue, jobs)
        while claimed := queue.claim(["a"], 500):
            queue.complete_many(claimed[: len(claimed) - (len(claimed) < 500)])
            if len(claimed) < 500:
                break
        connection.execute("select roll_up_workflows('-infinity')")
        for table in ("jobs", "dependencies", "member_changes", "workflows"):
            connection.execute(f"vacuum analyze {table}")
        counts = count_members(batch)
        costs.append(
            [
                buffers(connection, counts.text, counts.params),
                buffers(connection, "select tick('0')", tick=True),
                buffers(connection, "select find_workflow(%(id)s)", {"id": batch}),
            ]
        )
    for few, many in zip(*costs, strict=True):
        assert many <= 1.5 * few + 5, costs
