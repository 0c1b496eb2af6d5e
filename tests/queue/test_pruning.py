"""Pruning goes on where it stopped, and finds what is left below that place."""

from datetime import datetime
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.buffers import buffers
from treadle import JobQueue

PRUNE = "select pruned from prune_jobs(%(status)s, %(age)s, %(limit)s, null)"


def prune(connection: Connection[Any], age: str = "1 hour", limit: int = 1000, status: str = "completed") -> int:
    """As workers do."""
    row = connection.execute(PRUNE, {"status": status, "age": age, "limit": limit}).fetchone()
    assert row
    return int(row[0])


def finish(connection: Connection[Any], age: str, jobs: int = 1, status: str = "completed") -> None:
    """Jobs that have finished that long ago, one after the other."""
    connection.execute(
        """insert into jobs (job_type, status, finished_at)
        select 'a', %s, now() - %s::interval + nth * interval '1 microsecond' from generate_series(1, %s) as nth""",
        [status, age, jobs],
    )


def place(connection: Connection[Any]) -> datetime:
    row = connection.execute("select max(reached) from pruned where status = 'completed'").fetchone()
    assert row
    at: datetime = row[0]
    return at


def left(connection: Connection[Any]) -> int:
    row = connection.execute("select count(*) from jobs").fetchone()
    assert row
    return int(row[0])


@pytest.mark.fresh_database
def test_pruning_does_not_read_what_an_open_snapshot_keeps(connect: Connect) -> None:
    connection, reader = connect(), connect()
    finish(connection, "2 hours", 20_000)
    with reader.transaction():
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select count(*) from jobs")
        assert [prune(connection, limit=10_000) for _ in range(3)] == [10_000, 10_000, 0]
        # Some pages of the table in any case.
        assert (
            buffers(connection, PRUNE.replace("pruned", "*"), {"status": "completed", "age": "1 hour", "limit": 1000})
            < 200
        )


def test_a_call_that_deletes_nothing_writes_nothing(connection: Connection[Any]) -> None:
    finish(connection, "2 hours", 5)
    assert [prune(connection), prune(connection)] == [5, 0]
    with connection.transaction():
        assert prune(connection) == 0
        assert connection.execute("select pg_current_xact_id_if_assigned()").fetchone() == (None,)


def test_what_finished_below_the_place_is_pruned(connection: Connection[Any]) -> None:
    """Such as a job whose transaction was open for longer than the jobs are kept."""
    finish(connection, "2 hours", 5)
    assert prune(connection) == 5
    finish(connection, "3 hours", 7)
    assert [prune(connection, limit=4), prune(connection, limit=4)] == [4, 3]
    assert left(connection) == 0


def test_each_part_of_the_table_is_read_within_a_day(connection: Connection[Any]) -> None:
    finish(connection, "2 hours")
    assert prune(connection) == 1
    finish(connection, "30 minutes", 12_000)
    finish(connection, "3 hours", 3)
    finish(connection, "30 minutes", 12_000)
    row = connection.execute("select pg_relation_size('jobs') / 8192").fetchone()
    assert row
    assert row[0] > 5 * 64
    text = connection.execute("select pg_get_functiondef('prune_jobs'::regproc)").fetchone()
    assert text
    with connection.transaction(force_rollback=True):
        # Every tenth minute of a day, which is enough for a table of this size.
        pruned = 0
        for minute in range(0, 1440, 10):
            clock = f"to_timestamp({minute * 60})"
            connection.execute(text[0].replace("epoch from clock_timestamp()", f"epoch from {clock}").encode())
            pruned += prune(connection)
    assert pruned == 3


def test_a_locked_job_is_pruned_later(connect: Connect) -> None:
    connection, other = connect(), connect()
    finish(connection, "2 hours", 5)
    with other.transaction():
        other.execute("select from jobs order by finished_at limit 1 for update")
        assert prune(connection) == 4
    assert prune(connection) == 1


def test_another_retention_time_changes_nothing_else(connection: Connection[Any]) -> None:
    finish(connection, "3 hours", 2)
    finish(connection, "90 minutes", 3)
    finish(connection, "30 minutes", 4)
    assert prune(connection, "2 hours") == 2
    assert prune(connection, "1 hour") == 3
    reached = place(connection)
    # Longer than before: nothing is old enough, and the place stays.
    assert prune(connection, "1 day") == 0
    assert place(connection) == reached
    assert prune(connection, "10 minutes") == 4
    assert left(connection) == 0


def test_a_place_ahead_of_the_clock_is_not_used(connection: Connection[Any]) -> None:
    """The clock was set back."""
    connection.execute("insert into pruned values ('completed', now() + interval '1 day')")
    finish(connection, "2 hours", 2)
    assert prune(connection) == 2
    assert place(connection) < datetime.now().astimezone()
    assert connection.execute("select count(*) from pruned").fetchone() == (1,)


def test_one_at_a_time(connect: Connect) -> None:
    connection, other = connect(), connect()
    finish(connection, "2 hours", 4)
    with other.transaction():
        assert prune(other, limit=2) == 2
        assert prune(connection) == 0
        # A call with p_after, here its default, takes no lock: it deletes what is left.
        assert connection.execute("select pruned from prune_jobs('completed', '1 hour')").fetchone() == (2,)
    assert left(connection) == 0


def test_a_workflow_with_more_jobs_than_a_call_deletes_goes_on(connection: Connection[Any], queue: JobQueue) -> None:
    row = connection.execute("select id from enqueue_workflow('batch', '[]', '{\"is_open\": true}')").fetchone()
    assert row
    queue.enqueue_many("a", [{}] * 25, workflow=row[0])
    connection.execute("select close_workflow(%s)", [row[0]])
    queue.complete_many(queue.claim(["a"], 25))
    assert queue.get(row[0]).status == "completed"
    connection.execute("update jobs set finished_at = finished_at - interval '2 hours'")
    finish(connection, "90 minutes", 3)
    assert queue.prune("completed", "1h", batch_size=10) == 25 + 1 + 3
