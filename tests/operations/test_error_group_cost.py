"""What groups of errors cost, counted in buffers: it depends on the failures, never on the number of jobs."""

from typing import Any

import pytest
from psycopg import Connection

from tests.support.buffers import buffers
from tests.support.error_groups import count_now
from treadle import Treadle
from treadle.db.queries import error_groups as queries
from treadle.words.status import Status

COUNT = "select * from group_errors('0', 10000, '10 minutes', '0')"


def add_failed(connection: Connection[Any], number: int, job_type: str = "a") -> None:
    connection.execute(
        """with job as (
            insert into jobs (job_type, status, last_error, finished_at)
            select %s, 'failed', 'ValueError: no', clock_timestamp() from generate_series(1, %s)
            returning id
        )
        insert into errors (job_id, attempt, error, traceback)
        select id, 1, 'ValueError: order ' || row_number() over () || ' is gone', repeat('line ', 200) from job""",
        [job_type, number],
    )


def add_completed(connection: Connection[Any], number: int) -> None:
    connection.execute(
        """insert into jobs (job_type, status, finished_at)
        select 'a', 'completed', clock_timestamp() from generate_series(1, %s)""",
        [number],
    )


@pytest.mark.fresh_database
def test_the_cost_of_a_failure_is_bounded_and_completed_jobs_cost_nothing(
    app: Treadle, connection: Connection[Any]
) -> None:
    count_now(app)
    nothing = buffers(connection, COUNT)
    assert nothing < 60
    add_completed(connection, 5000)
    assert buffers(connection, COUNT) <= nothing + 5
    add_failed(connection, 1000)
    one = buffers(connection, COUNT)
    # The row of errors, its job, and what is inserted: 13.3 in PostgreSQL 18, and 12 for a call that finds nothing.
    assert (one - nothing) / 1000 < 25
    add_completed(connection, 20_000)
    assert buffers(connection, COUNT) < 1.3 * one


@pytest.mark.fresh_database
def test_a_second_call_reads_nothing_again(app: Treadle, connection: Connection[Any]) -> None:
    add_failed(connection, 1000)
    count_now(app)
    assert buffers(connection, COUNT) < 100


@pytest.mark.fresh_database
def test_a_second_look_passes_over_what_is_counted(app: Treadle, connection: Connection[Any]) -> None:
    """It reads the failure and the entry that it was counted, but not its job, nor its text."""
    add_failed(connection, 1000)
    count_now(app)
    again = "select * from group_errors_between(now() - interval '1 minute', clock_timestamp(), 10000)"
    assert buffers(connection, again) / 1000 < 6


@pytest.mark.fresh_database
def test_the_jobs_of_a_group_cost_the_same_whatever_the_number_of_others(
    app: Treadle, connection: Connection[Any]
) -> None:
    add_failed(connection, 100)
    add_failed(connection, 1000, "b")
    add_completed(connection, 2000)  # indexes of two levels, as later
    count_now(app)
    connection.execute("analyze")
    query = queries.find_jobs(1, Status.FAILED, None, 20)
    few = buffers(connection, query.bound("treadle"), query.params, rows=20)
    assert few < 400
    add_failed(connection, 5000, "b")
    add_completed(connection, 20_000)
    count_now(app)
    assert buffers(connection, query.bound("treadle"), query.params, rows=20) < 1.3 * few + 20


@pytest.mark.fresh_database
def test_a_hundred_workers_cost_as_much_as_one(app: Treadle, connection: Connection[Any]) -> None:
    """A call right after another one writes nothing."""
    count_now(app)
    assert app.database.run(queries.group_errors()) == (0, False)
    before = connection.execute("select xmin from error_meter").fetchone()
    for _ in range(5):
        app.database.run(queries.group_errors())
    assert connection.execute("select xmin from error_meter").fetchone() == before
