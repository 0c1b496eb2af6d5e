"""The cost of a claim does not depend on the rest of the table. It is counted in buffers, not in time."""

from typing import Any

import pytest
from psycopg import Connection, sql

from tests.conftest import Connect
from tests.support.buffers import claim_buffers
from tests.support.waiting import until_floors_pass, until_ticks_change_nothing, wait_for_floor_margin

pytestmark = pytest.mark.fresh_database

LIMIT = 1.5
# Reading this many rows would cost at least five times as much as a claim.
MANY = 12_000


def cost(connection: Connection[Any]) -> int:
    """How many buffers a claim of 10 jobs touches, after a tick has moved the floors.

    A tick moves them only past what is older than other transactions, also those in other databases of the server.
    """
    return min(claim_buffers(connection, 10, tick=True) for _ in range(3))


def enqueue(connection: Connection[Any], job_type: str, count: int, options: str = "") -> None:
    connection.execute(
        sql.SQL("select enqueue_jobs(%s, array_fill('{{}}'::text, array[%s]) {})").format(sql.SQL(options)),
        [job_type, count],
    )


def run_to_completion(connection: Connection[Any], job_type: str) -> None:
    while True:
        rows = connection.execute("select id, lease from claim_jobs('w', array[%s], 1000)", [job_type]).fetchall()
        if not rows:
            return
        ids, leases = [row[0] for row in rows], [row[1] for row in rows]
        connection.execute("select complete_jobs(%s, %s, %s)", [ids, leases, ["w"] * len(ids)])
        connection.execute("select tick()")


def jobs_of_other_types(connect: Connect) -> None:
    connection = connect()
    for priority in (50, 100, 150):
        for nth in range(4):
            enqueue(connection, f"foreign-{nth}", MANY // 12 + 1, f", p_priority => {priority}")


def jobs_due_tomorrow(connect: Connect) -> None:
    enqueue(connect(), "mine", MANY, ", p_priority => 150, p_delay => '1 day'")


def finished_jobs(connect: Connect) -> None:
    connect().execute(
        "insert into jobs (job_type, status) select 'mine', 'completed' from generate_series(1, %s)", [MANY]
    )


def dead_rows_kept_by_a_snapshot(connect: Connect, number: int = MANY) -> None:
    snapshot = connect(autocommit=False)
    snapshot.execute("set transaction isolation level repeatable read")
    snapshot.execute("select count(*) from lanes")
    connection = connect()
    # Older than the jobs that the measured claim takes, so that they are in its way.
    connection.execute("update jobs set holds = 8 where job_type = 'mine' and status = 'pending' and priority = 100")
    enqueue(connection, "mine", number)
    run_to_completion(connection, "mine")
    connection.execute("update jobs set holds = 0 where holds = 8")


def locked_jobs(connect: Connect) -> None:
    connection = connect()
    enqueue(connection, "mine", 2_000)
    wait_for_floor_margin(connection)
    locker = connect(autocommit=False)
    rows = locker.execute(
        """select run_at from jobs where status = 'pending' and job_type = 'mine' and priority = 100
        order by run_at limit 2000 for update"""
    ).fetchall()
    assert len(rows) == 2_000
    until_floors_pass(connection, rows[-1][0])  # it passes only rows whose locks are older than a tick


def jobs_blocked_by_their_keys(connect: Connect) -> None:
    connection, each = connect(), MANY // 100
    for nth in range(100):
        enqueue(
            connection, "mine", each, f", p_priority => 200, p_keys => array_fill('k{nth}'::varchar, array[{each}])"
        )
    rows = connection.execute("select id from claim_jobs('w', '{mine}', 100)").fetchall()
    assert len(rows) == 100
    assert connection.execute("select count(*) from jobs where holds = 1").fetchone() == (MANY - 100,)
    wait_for_floor_margin(connection)


READ = "select pg_stat_get_xact_tuples_returned('idx_jobs_claimable'::regclass)"
OBSTACLES = [
    jobs_of_other_types,
    jobs_due_tomorrow,
    finished_jobs,
    dead_rows_kept_by_a_snapshot,
    locked_jobs,
    jobs_blocked_by_their_keys,
]


def empty_table_cost(connect: Connect) -> int:
    connection = connect()
    enqueue(connection, "mine", 1_000)
    wait_for_floor_margin(connection)
    return cost(connection)


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_a_claim_costs_the_same_with(connect: Connect, obstacle: Any) -> None:
    before = empty_table_cost(connect)
    obstacle(connect)
    assert cost(connect()) <= LIMIT * before


def test_a_claim_costs_the_same_with_all_obstacles_together(connect: Connect) -> None:
    before = empty_table_cost(connect)
    for obstacle in OBSTACLES:
        obstacle(connect)
    assert cost(connect()) <= LIMIT * before


@pytest.mark.long
def test_without_the_floor_a_claim_reads_the_dead_rows(connect: Connect) -> None:
    """The tests above fail without the floor: this is the cost of a claim that starts at the beginning of the lane."""
    before = empty_table_cost(connect)
    dead_rows_kept_by_a_snapshot(connect, 30_000)
    connection = connect()
    connection.execute("update floors set floor = '-infinity'")
    assert claim_buffers(connection, 10) > 10 * before


def test_one_of_many_lanes_that_has_only_dead_rows_is_read_once(connect: Connect) -> None:
    dead_rows_kept_by_a_snapshot(connect, 2_000)
    connection = connect()
    connection.execute("delete from jobs")
    connection.execute(
        "insert into jobs (job_type, queue) select 'mine', 'queue-' || nth from generate_series(1, 150) as nth"
    )
    connection.execute("update lanes set changed_at = clock_timestamp()")  # too young to become dormant
    connection.execute("update floors set floor = '-infinity'")
    read = []
    for nth in range(3):
        if nth == 1:
            wait_for_floor_margin(connection)
        with connection.transaction():
            before = connection.execute(READ).fetchone() or (0,)
            connection.execute("select from claim_jobs('w', '{mine}', 200)")
            read.append((connection.execute(READ).fetchone() or (0,))[0] - before[0])
    assert max(read) > 2_000
    assert read[-1] < 500, read


def test_jobs_are_claimed_after_their_rows_are_unlocked(connect: Connect) -> None:
    connection = connect()
    enqueue(connection, "mine", 500)
    wait_for_floor_margin(connection)
    connection.execute("select tick('0')")  # not by the claim that stays open
    locker = connect(autocommit=False)
    assert len(locker.execute("select from claim_job_batch('x', '{mine}', 400)").fetchall()) == 400
    late = connection.execute(
        "select max(run_at) from (select run_at from jobs order by run_at limit 400) as t"
    ).fetchone()
    assert late
    until_floors_pass(connection, late[0])
    locker.rollback()
    connection.execute("select tick('0')")
    assert len(connection.execute("select from claim_job_batch('w', '{mine}', 1000)").fetchall()) == 500


def test_a_claim_over_several_lanes_is_cheap_with_outdated_statistics(connect: Connect) -> None:
    """The statistics are from a time without pending jobs: the planner takes the index of claimable jobs for empty."""
    connection = connect()
    connection.execute("insert into jobs (job_type, status) select 'mine', 'completed' from generate_series(1, 10000)")
    connection.execute("vacuum analyze jobs")
    for job_type in ("mine", "other"):
        enqueue(connection, job_type, 10_000)
    connection.execute("select tick('0')")
    with connection.transaction():
        assert len(connection.execute("select from claim_job_batch('w', '{mine,other}', 1000)").fetchall()) == 1000
        fetched = connection.execute(
            "select idx_tup_fetch from pg_stat_xact_user_tables where relid = 'jobs'::regclass"
        ).fetchone()
    # The claim reads some jobs of each lane, finds the best thousand, and reads those again to lock and to return them.
    assert fetched is not None
    assert fetched[0] <= 4100


def test_ticks_do_not_write_to_an_idle_lane(connect: Connect) -> None:
    connection = connect()
    enqueue(connection, "mine", 10)
    enqueue(connection, "later", 10, ", p_delay => '1 day'")
    wait_for_floor_margin(connection)
    until_ticks_change_nothing(connection)
    assert [connection.execute("select tick('0')").fetchone() for _ in range(5)] == [(0,)] * 5
