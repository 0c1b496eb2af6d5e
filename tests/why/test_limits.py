"""Why a job does not run that waits for a limit."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.conftest import Why
from tests.queue.test_limits import claim, enqueue, limit
from tests.support.why import register_worker
from treadle import JobQueue

Rows = Connection[Any]


def pending(connection: Rows, tenant: str = "acme") -> UUID:
    """The last of the jobs that wait."""
    row = connection.execute(
        "select id from jobs where status = 'pending' and data ->> 'tenant' = %s order by run_at desc, id desc limit 1",
        [tenant],
    ).fetchone()
    assert row
    return UUID(str(row[0]))


def seconds_until(moment: datetime) -> float:
    return (moment - datetime.now(UTC)).total_seconds()


@pytest.fixture(autouse=True)
def worker(connection: Rows) -> None:
    register_worker(connection, "{sync}")


def test_the_limit_is_reached(connection: Rows, why: Why) -> None:
    limit(connection, 2, per="tenant")
    enqueue(connection, 5)
    assert why(pending(connection)).name == "busy"  # nothing runs yet: only others are ahead of it
    claim(connection)
    assert claim(connection) == []  # which notes that the others wait
    reason = why(pending(connection))
    assert reason.name == "limited"
    assert reason.sentence == (
        "The limit sync is reached: 2 of 2 running for tenant acme; 2 similar jobs are ahead of it."
    )
    assert reason.remedy.endswith("To allow more: treadle limits set sync AMOUNT --key acme")
    assert reason.short == "waits for the limit sync (2 of 2 running for tenant acme)"
    assert (reason.data["limit"], reason.data["key"], reason.data["in_use"]) == ("sync", "acme", 2)
    enqueue(connection, 1, "globex")
    assert why(pending(connection, "globex")).name == "ready"


def test_when_the_first_is_free_is_estimated_from_jobs_that_finished(connection: Rows, why: Why) -> None:
    limit(connection, 1)
    enqueue(connection, 2)
    claim(connection)
    connection.execute("update jobs set status = 'running', started_at = now() - interval '10 seconds' where lease > 0")
    assert "first free" not in why(pending(connection)).sentence
    connection.execute(
        """insert into minutes (minute, queue, job_type, completed, ran)
        select date_trunc('minute', now()) - nth * interval '1 minute', 'default', 'sync', 2, 60
        from generate_series(0, 4) as nth"""
    )
    reason = why(pending(connection))
    assert reason.sentence.startswith("The limit sync is reached: 1 of 1 running; first free in about ")
    assert 15 < seconds_until(reason.data["starts_at"]) < 21
    connection.execute("update jobs set started_at = now() - interval '1 hour' where status = 'running'")
    assert "the next should be free any moment" in why(pending(connection)).sentence


def test_the_rate_is_reached(connection: Rows, why: Why) -> None:
    limit(connection, 2, 60.0, per="tenant")
    enqueue(connection, 4)
    claim(connection)
    reason = why(pending(connection))
    assert reason.name == "rate_limited"
    assert reason.sentence.startswith(
        "The limit sync allows 2 per minute for tenant acme; the next may start in about "
    )
    assert 25 < seconds_until(reason.data["starts_at"]) <= 30
    connection.execute("update limit_holders set closed_until = now() + interval '2 hours'")
    assert "the next may start in about 2h 00m" in why(pending(connection)).sentence


def test_the_limit_is_zero(connection: Rows, why: Why) -> None:
    limit(connection, 2, per="tenant")
    enqueue(connection, 1)
    enqueue(connection, 1, "later", delay="1 hour")
    connection.execute("select set_limit('sync', 0, p_key => 'acme', p_actor => 'ann')")
    reason = why(pending(connection))
    assert reason.name == "limit_paused"
    assert reason.sentence.startswith("No job starts: the limit sync is 0 for tenant acme since 20")
    assert reason.sentence.endswith("s ago, set by ann.")
    assert reason.remedy == "To end this: treadle limits reset sync --key acme"
    connection.execute("select set_limit('sync', 0, p_actor => 'ann')")
    reason = why(pending(connection, "later"))
    # It is not known what else it will wait for.
    assert (reason.name, [each.name for each in reason.also]) == ("due_later", ["limit_paused"])
    connection.execute("select reset_limit('sync', 'acme')")
    assert why(pending(connection)).remedy == "To end this: treadle limits reset sync"


def test_a_limit_of_zero_in_code(connection: Rows, why: Why) -> None:
    limit(connection, 0)
    enqueue(connection, 1)
    reason = why(pending(connection))
    assert reason.sentence == "No job starts: the limit sync is 0."
    assert reason.remedy == "Change it in code, or: treadle limits set sync AMOUNT"


def test_a_heavy_job_needs_more_than_there_is(connection: Rows, why: Why) -> None:
    limit(connection, 5)
    enqueue(connection, 2, "light")
    enqueue(connection, 1, "heavy", weight=4)
    claim(connection)
    reason = why(pending(connection, "heavy"))
    assert reason.sentence == "The job needs 4 of limit sync, 3 are free (2 of 5 in use)."
    connection.execute("update jobs set weight = 10 where status = 'pending'")
    assert why(pending(connection, "heavy")).sentence.startswith("The job needs 5 of limit sync, 3 are free")


def test_weights_are_not_counted_as_jobs(connection: Rows, why: Why) -> None:
    limit(connection, 4)
    enqueue(connection, 1, "heavy", weight=4)
    enqueue(connection, 1)
    claim(connection)
    assert why(pending(connection)).sentence == "The limit sync is reached: 4 of 4 in use."


def test_every_limit_that_is_reached_is_named(connection: Rows, why: Why) -> None:
    limit(connection, 1, name="a")
    limit(connection, 1, 3600.0, name="b", per="tenant")
    limit(connection, 9, name="c")
    limit(connection, 0, name="d")
    enqueue(connection, 2)
    connection.execute("select set_limit('d', 1)")
    claim(connection)
    connection.execute("select set_limit('d', 0)")
    reason = why(pending(connection))
    assert [reason.name, *(each.name for each in reason.also)] == ["limit_paused", "limited", "rate_limited"]


def test_jobs_that_wait_for_a_limit_are_not_ahead_of_others(connection: Rows, queue: JobQueue, why: Why) -> None:
    register_worker(connection, "{sync,mail}")
    limit(connection, 1)
    enqueue(connection, 20, priority=150)
    claim(connection)
    claim(connection)
    assert why(queue.enqueue("mail")).name == "ready"
