"""Aging: jobs that have waited for long get a share of the claims, whatever their priority."""

from typing import Any

import pytest
from psycopg import Connection

from tests.queue.test_limits import aging, limit, take_turns
from tests.support.buffers import buffers
from treadle import Fairness, InvalidArgument, Treadle

Rows = Connection[Any]


def fill(connection: Rows, count: int, priority: int, age: str, job_type: str = "sync", queue: str = "default") -> None:
    """Jobs that have waited for so long. Triggers are off: a job that is dated back would be due now."""
    connection.execute("set session_replication_role = replica")
    connection.execute(
        """insert into jobs (id, job_type, queue, priority, run_at, created_at)
        select new_id(), %s, %s, %s, now() - %s::interval + n * interval '1 microsecond', now()
        from generate_series(1, %s) as n""",
        [job_type, queue, priority, age, count],
    )
    connection.execute("insert into lanes (queue, job_type, priority) values (%s, %s, %s)", [queue, job_type, priority])
    connection.execute("set session_replication_role = origin")


def claimed(connection: Rows, batch: int = 1, times: int = 1, queues: str | None = None) -> list[int]:
    """The priorities of the jobs that are claimed."""
    found = []
    for _ in range(times):
        rows = connection.execute(
            "select priority from claim_jobs('w', '{sync,other}', %s, %s::varchar[])", [batch, queues]
        )
        found += [row[0] for row in rows]
    return found


def test_priorities_are_strict_without_it(connection: Rows) -> None:
    fill(connection, 100, 10, "1 year")
    fill(connection, 100, 100, "1 second")
    assert claimed(connection, 10, 5) == [100] * 50


def test_jobs_that_have_waited_get_a_share(connection: Rows) -> None:
    fill(connection, 1000, 10, "2 hours")
    fill(connection, 1000, 100, "1 second")
    aging(connection, 25)
    found = claimed(connection, 1, 400)
    assert 60 < found.count(10) < 140, found.count(10)  # 100, and 8.7 is one standard deviation


def test_jobs_that_have_waited_for_less_get_none(connection: Rows) -> None:
    fill(connection, 100, 10, "30 minutes")
    fill(connection, 200, 100, "1 second")
    aging(connection, 100)
    assert claimed(connection, 10, 5) == [100] * 50


def test_only_those_that_have_waited_are_claimed_first(connection: Rows) -> None:
    fill(connection, 3, 10, "2 hours")
    fill(connection, 10, 10, "1 minute")
    fill(connection, 10, 100, "1 second")
    aging(connection, 100)
    assert sorted(claimed(connection, 6)) == [10] * 3 + [100] * 3


def test_the_priority_that_has_waited_longest_comes_first(connection: Rows) -> None:
    fill(connection, 5, 10, "2 hours")
    fill(connection, 5, 50, "3 hours", "other")
    fill(connection, 5, 100, "1 second")
    aging(connection, 100)
    assert claimed(connection, 5) == [50] * 5
    assert claimed(connection, 5) == [10] * 5
    assert claimed(connection, 5) == [100] * 5


def test_paused_jobs_and_other_queues_stay_where_they_are(connection: Rows) -> None:
    fill(connection, 5, 10, "2 hours")
    fill(connection, 5, 20, "2 hours", queue="other")
    fill(connection, 50, 100, "1 second", "other")
    aging(connection, 100)
    assert claimed(connection, 5, queues="{default}") == [10] * 5
    connection.execute("select pause(p_queue => 'other')")
    assert claimed(connection, 5) == [100] * 5


def many_lanes(connection: Rows, priority: int = 1000) -> None:
    """So many that not all of them are looked at."""
    connection.execute("set session_replication_role = replica")
    connection.execute(
        """insert into lanes (queue, job_type, priority, partition)
        select 'default', 'sync', %s, format('{"tenant": "%%s"}', n) from generate_series(1, 150) as n""",
        [priority],
    )
    connection.execute("set session_replication_role = origin")


def test_paused_jobs_stay_where_they_are_with_many_lanes(connection: Rows) -> None:
    many_lanes(connection)
    fill(connection, 5, 20, "3 hours", queue="other")
    fill(connection, 5, 30, "2 hours")
    fill(connection, 50, 100, "1 second", "other")
    aging(connection, 100)
    connection.execute("select pause(p_queue => 'other')")
    assert claimed(connection, 5) == [30] * 5


def test_lanes_of_a_lower_priority_that_have_not_waited_hide_nobody(connection: Rows) -> None:
    many_lanes(connection, 1)
    fill(connection, 5, 30, "2 hours")
    fill(connection, 50, 100, "1 second", "other")
    aging(connection, 100)
    assert claimed(connection, 5) == [30] * 5


def test_lanes_of_one_priority_take_turns(connection: Rows) -> None:
    many_lanes(connection)
    connection.execute("set session_replication_role = replica")
    connection.execute(
        """insert into jobs (id, job_type, priority, run_at, partition)
        select new_id(), 'sync', 1000, now() - interval '2 hours', format('{"tenant": "%s"}', n % 150 + 1)
        from generate_series(1, 3000) as n"""
    )
    connection.execute("set session_replication_role = origin")
    fill(connection, 500, 2000, "1 second", "other")
    aging(connection, 100)
    claimed(connection, 1, 100)
    found = connection.execute("select distinct partition from jobs where status = 'claimed' and priority = 1000")
    assert len(found.fetchall()) > 40


def test_what_an_operator_changed_stays_until_it_is_reset(connection: Rows) -> None:
    def in_force() -> Any:
        return connection.execute(
            "select amount, seconds, declared_amount, changed_by is not null from find_limits()"
        ).fetchone()

    aging(connection, 10, 3600)
    connection.execute("select set_limit('aging', 20, interval '2 hours')")
    assert in_force() == (20, 7200, 10, True)
    aging(connection, 30, 600)
    assert in_force() == (20, 7200, 30, True)
    assert connection.execute("select reset_limit('aging')").fetchone() == (True,)
    assert in_force() == (30, 600, 30, False)
    assert connection.execute("select reset_limit('aging')").fetchone() == (False,)
    # Or until the code has no aging any more.
    connection.execute("select set_limit('aging', 20)")
    take_turns(connection, "", "")
    assert in_force() == (None, None, None, False)
    aging(connection, 40, 600)
    assert in_force() == (40, 600, 40, False)


def test_limits_hold(connection: Rows) -> None:
    fill(connection, 50, 10, "2 hours")
    fill(connection, 50, 100, "1 second", "other")
    aging(connection, 100)
    limit(connection, 3)
    assert sorted(claimed(connection, 10)) == [10] * 3 + [100] * 7


@pytest.mark.fresh_database
def test_the_cost_does_not_grow_with_the_lanes(connection: Rows) -> None:
    fill(connection, 50, 10, "2 hours")
    fill(connection, 50, 100, "1 second")
    aging(connection, 100)
    claim = "select from claim_jobs('w', '{sync,other}', 10)"
    few = buffers(connection, claim, rows=10, tick=True)
    connection.execute("set session_replication_role = replica")
    connection.execute(
        "insert into lanes (queue, job_type, priority) select 'default', 'sync', n from generate_series(101, 5000) as n"
    )
    connection.execute("set session_replication_role = origin")
    # Twenty priorities are looked at, in three steps each.
    assert buffers(connection, claim, rows=10, tick=True) < few + 400


def test_an_application_declares_it(app: Treadle, connection: Rows, url: str) -> None:
    with pytest.raises(InvalidArgument, match=r"aging must be longer than 0 s, got 0"):
        Treadle(url, fairness=Fairness(aging=0))
    aged = Treadle(url, fairness=Fairness(aging="1h"))

    @aged.job
    def sync() -> None: ...

    aged.run_worker(drain=True)
    row = connection.execute("select aging_share, aging_after = '1 hour' from type_settings").fetchone()
    assert row == (10, True)
    aged.close()
