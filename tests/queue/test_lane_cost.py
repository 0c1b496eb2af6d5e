"""What a claim, a tick and next_due() cost does not depend on how many lanes there are, on what other claims have
locked, or on a transaction that was left open. It is counted in buffers and index entries, not in time."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from psycopg import Connection
from psycopg.errors import Diagnostic

from tests.conftest import Connect
from tests.support.buffers import buffers as buffers_of
from tests.support.waiting import until_ticks_change_nothing, wait_for_floor_margin

pytestmark = pytest.mark.fresh_database

TYPES = [f"type-{nth}" for nth in range(10)]
CLAIM = "select from claim_jobs('w', %(types)s, 10)"
CLAIM_OF_A_QUEUE = "select from claim_jobs('w', %(types)s, 10, '{default}')"
NEXT_DUE = "select next_due(%(types)s)"
TICK = "select tick('0')"


def buffers(connection: Connection[Any], statement: str, types: list[str] = TYPES) -> int:
    return buffers_of(connection, statement, {"types": types}, tick=True)


def entries_read(connection: Connection[Any], types: list[str], batch: int = 10) -> int:
    """How many entries of the index of claimable jobs a claim reads. It is rolled back."""
    connection.execute(TICK)
    read = "select pg_stat_get_xact_tuples_returned('idx_jobs_claimable'::regclass)"
    with connection.transaction(force_rollback=True):
        (before,) = connection.execute(read).fetchone() or (0,)
        assert len(connection.execute("select from claim_jobs('w', %s, %s)", [types, batch]).fetchall()) == batch
        (after,) = connection.execute(read).fetchone() or (0,)
    return int(after - before)


def add_jobs(connection: Connection[Any], count: int, lanes: int = 10) -> None:
    connection.execute(
        "insert into jobs (job_type) select 'type-' || nth %% %s from generate_series(1, %s) as nth", [lanes, count]
    )
    wait_for_floor_margin(connection)


def run_jobs(connection: Connection[Any], count: int, ticks: bool = True) -> None:
    """Enqueue, claim and complete many jobs of ten types."""
    for _ in range(count // 1000):
        enqueue = "select enqueue_jobs(t, array_fill('{}'::text, array[100])) from unnest(%s::varchar[]) as t"
        connection.execute(enqueue, [TYPES])
        rows = connection.execute("select id, lease from claim_jobs('w', %s, 1000)", [TYPES]).fetchall()
        ids, leases = [row[0] for row in rows], [row[1] for row in rows]
        connection.execute("select complete_jobs(%s, %s, %s)", [ids, leases, ["w"] * len(ids)])
        if ticks:
            connection.execute(TICK)


# Lanes


def idle_lanes(connection: Connection[Any], count: int) -> None:
    connection.execute(
        """insert into lanes (queue, job_type, priority, changed_at)
        select 'queue-' || nth, 'type-' || nth %% 10, nth, now() - interval '1 hour'
        from generate_series(1, %s) as nth""",
        [count],
    )


def vacuum_lanes(connection: Connection[Any]) -> str:
    """Remove all dead rows and return what PostgreSQL reports. FREEZE skips no page that another process uses."""
    report: list[str] = []

    def keep(notice: Diagnostic) -> None:
        report.append(f"{notice.message_primary}\n{notice.message_detail}")

    connection.add_notice_handler(keep)
    connection.execute("vacuum (freeze, verbose) lanes")
    connection.remove_notice_handler(keep)
    return "\n".join(report)


def until_lanes_are_deleted(connection: Connection[Any], but: int) -> None:
    """A transaction anywhere on the server may have seen them active: they are deleted when it has ended."""
    end = time.monotonic() + 60
    while connection.execute("select count(*) from lanes").fetchone() != (but,):
        assert time.monotonic() < end, "the lanes were not deleted"
        connection.execute(TICK)


def test_lanes_without_work_cost_nothing_and_are_deleted(connect: Connect) -> None:
    connection = connect()
    add_jobs(connection, 1000)
    until_ticks_change_nothing(connection)
    statements = (CLAIM, CLAIM_OF_A_QUEUE, NEXT_DUE, TICK)
    before = [buffers(connection, statement) for statement in statements]
    idle_lanes(connection, 2000)
    until_lanes_are_deleted(connection, 10)
    vacuum_lanes(connection)
    for statement, cost in zip(statements, before, strict=True):
        assert buffers(connection, statement) <= 2 * cost + 10, statement


def test_many_lanes_that_ran_empty_are_searched_once(connect: Connect) -> None:
    """A claim makes a thousand idle itself: ticks, which examine only a part of so many at a time, come too late."""
    connection = connect()
    add_jobs(connection, 1000)
    before = buffers(connection, CLAIM)
    connection.execute(TICK)  # so that the claim makes none
    idle_lanes(connection, 2000)
    connection.execute("update lanes set priority = 1000 where queue <> 'default'")
    left = []
    for _ in range(2):
        assert len(connection.execute(CLAIM, {"types": TYPES}).fetchall()) == 10
        left += connection.execute("select count(*) from lanes where dormant_xid is null").fetchall()
    assert left == [(998,), (10,)]
    removed = vacuum_lanes(connection)
    assert buffers(connection, CLAIM) <= 2 * before + 10, removed


def test_a_claim_makes_only_lanes_idle_that_have_had_no_due_jobs_for_some_time(connect: Connect) -> None:
    connection = connect()
    connection.execute(TICK)  # so that the claim makes none
    idle_lanes(connection, 200)
    connection.execute("update lanes set changed_at = now() where queue = 'queue-1'")
    locker = connect(autocommit=False)
    for queue, run_at in (("queue-2", "now()"), ("queue-3", "now() + '30 s'"), ("queue-4", "now() + '1 h'")):
        connection.execute(
            f"""insert into jobs (queue, job_type, priority, run_at)
            select queue, job_type, priority, {run_at} from lanes where queue = %s""",
            [queue],
        )
    locker.execute("select from jobs where queue = 'queue-2' for update")
    assert connection.execute(CLAIM, {"types": TYPES}).fetchall() == []
    rows = connection.execute(
        "select queue, dormant_xid is null, wakes_at > now() + '50 min' from lanes where queue < 'queue-5' order by id"
    ).fetchall()
    states = {queue: state for queue, *state in rows if len(queue) == len("queue-1")}
    assert states == {
        "queue-1": [True, None],
        "queue-2": [True, None],
        "queue-3": [True, None],
        "queue-4": [False, True],
    }


def test_all_lanes_are_examined_in_turn(connect: Connect) -> None:
    """Also behind many that stay active. A tick does not read those that are dormant."""
    connection = connect()
    connection.execute(
        "insert into jobs (job_type, queue) select 'type-1', 'queue-' || nth from generate_series(1, 700) as nth"
    )
    wait_for_floor_margin(connection)
    connection.execute(
        "insert into lanes (queue, job_type, priority, changed_at)"
        " values ('last', 'type-1', 100, now() - interval '1 hour')"
    )
    for _ in range(4):
        connection.execute(TICK)
    assert connection.execute("select count(*) from lanes where queue = 'last' and dormant_xid is null").fetchone() == (
        0,
    )
    assert connection.execute("select count(*) from lanes where dormant_xid is null").fetchone() == (700,)


def test_a_tick_does_not_read_lanes_that_are_dormant(connect: Connect) -> None:
    connection = connect()
    add_jobs(connection, 1000)
    until_ticks_change_nothing(connection)
    before = buffers(connection, TICK)
    connection.execute(
        """insert into lanes (queue, job_type, priority, dormant_xid, wakes_at, changed_at)
        select 'queue-' || nth, 'type-1', nth, '3', now() + interval '1 day', now() - interval '1 hour'
        from generate_series(1, 3000) as nth"""
    )
    connection.execute("vacuum lanes")
    # The index is a level higher.
    assert buffers(connection, TICK) <= 1.5 * before


def test_a_claim_does_not_read_all_lanes_that_have_work(connect: Connect) -> None:
    connection = connect()
    add_jobs(connection, 1000)
    before = buffers(connection, CLAIM)
    connection.execute(
        """insert into jobs (job_type, queue) select 'type-' || nth % 10, 'queue-' || nth
        from generate_series(1, 5000) as nth"""
    )
    connection.execute(TICK)
    assert buffers(connection, CLAIM) <= 25 * before  # 100 lanes instead of 10, listed twice


def test_many_priorities_of_one_type_do_not_slow_the_others(connect: Connect) -> None:
    connection = connect()
    add_jobs(connection, 1000)
    before = buffers(connection, CLAIM)
    connection.execute("insert into jobs (job_type, priority) select 'flood', nth from generate_series(1, 2000) as nth")
    assert buffers(connection, CLAIM) <= 1.5 * before


def test_jobs_of_many_priorities_are_claimed_in_their_order(connect: Connect) -> None:
    connection = connect()
    connection.execute("insert into jobs (job_type, priority) select 'a', nth from generate_series(1, 500) as nth")
    for last in (490, 480):
        rows = connection.execute("select priority from claim_jobs('w', '{a}', 10)").fetchall()
        assert [row[0] for row in rows] == list(range(last + 10, last, -1))


@pytest.mark.parametrize("queues", [None, [f"queue-{nth}" for nth in range(250)]])
def test_a_claim_finds_the_jobs_of_all_lanes(connect: Connect, queues: list[str] | None) -> None:
    connection = connect()
    connection.execute(
        "insert into jobs (job_type, queue) select 'a', 'queue-' || nth from generate_series(0, 249) as nth"
    )
    rows = connection.execute("select queue from claim_jobs('w', '{a}', 1000, %s)", [queues]).fetchall()
    assert len({row[0] for row in rows}) == 250
    assert connection.execute("select next_due('{a}')").fetchone() == (None,)


@pytest.mark.parametrize("in_the_way", ["other queues", "paused queues", "both"])
def test_lanes_that_a_claim_may_not_take_do_not_hide_others(connect: Connect, in_the_way: str) -> None:
    """More of them than a claim reads at once; the lane that has the job is the last by number and by name."""
    connection = connect()
    connection.execute(
        "insert into jobs (job_type, queue) select 'a', 'queue-' || nth from generate_series(1, 250) as nth"
    )
    connection.execute("insert into jobs (job_type, queue) values ('a', 'the-last')")
    if in_the_way != "other queues":
        connection.execute(
            "insert into pauses (job_type, queue) select '', 'queue-' || nth from generate_series(1, 250) as nth"
        )
    queues = None if in_the_way == "paused queues" else ["the-last"]
    row = connection.execute("select next_due('{a}', %s)", [queues]).fetchone()
    assert row
    assert row[0] <= 0
    rows = connection.execute("select queue from claim_jobs('w', '{a}', 10, %s)", [queues]).fetchall()
    assert rows == [("the-last",)]


def test_an_idle_lane_becomes_active_before_its_job_is_due(connect: Connect) -> None:
    connection = connect()
    connection.execute("select enqueue('a', p_delay => '2 hours')")
    connection.execute("update lanes set changed_at = now() - interval '1 hour'")
    until_ticks_change_nothing(connection)
    assert connection.execute("select dormant_xid is not null from lanes").fetchone() == (True,)
    row = connection.execute("select next_due('{a}')").fetchone()
    assert row
    assert 7100 < row[0] <= 7200
    # Two hours later: both times are moved back.
    connection.execute("update jobs set run_at = run_at - interval '2 hours' where job_type = 'a'")
    connection.execute("update lanes set wakes_at = wakes_at - interval '2 hours'")
    connection.execute("update ticks set ticked_at = ticked_at - interval '2 hours'")
    connection.execute(TICK)
    assert len(connection.execute("select from claim_jobs('w', '{a}')").fetchall()) == 1


# Several lanes of one priority


@pytest.mark.parametrize("burst", [1, 200])
@pytest.mark.parametrize(("batch", "limit"), [(1, 15), (10, 75), (400, 2_000)])
def test_a_claim_reads_few_more_jobs_than_it_takes(connect: Connect, burst: int, batch: int, limit: int) -> None:
    """Whether the jobs of ten lanes were enqueued in turn or in bursts."""
    connection = connect()
    connection.execute(
        "insert into jobs (job_type) select 'type-' || nth / %s %% 10 from generate_series(0, 7999) as nth", [burst]
    )
    wait_for_floor_margin(connection)
    assert entries_read(connection, TYPES, batch) <= limit


def test_a_claim_reads_few_more_jobs_than_it_takes_beside_empty_lanes(connect: Connect) -> None:
    """Two of ten lanes have nearly all jobs."""
    connection = connect()
    add_jobs(connection, 2000, 2)
    connection.execute("insert into jobs (job_type) select unnest(%s::text[])", [TYPES])
    wait_for_floor_margin(connection)
    assert entries_read(connection, TYPES, 400) <= 1_600


# Locked rows


@pytest.mark.parametrize("lanes", [1, 10])
def test_a_claim_beside_many_others_reads_little_more_than_they_have_locked(connect: Connect, lanes: int) -> None:
    connection = connect()
    add_jobs(connection, 2000, lanes)
    types = TYPES[:lanes]
    alone = entries_read(connection, types)
    claim = "select from claim_jobs('w', %s, 50)"
    for _ in range(20):
        assert len(connect(autocommit=False).execute(claim, [types]).fetchall()) == 50
    assert entries_read(connection, types) <= alone + 8 * 1000


@pytest.mark.parametrize("lanes", [1, 10])
def test_the_cost_of_locked_rows_is_proportional(connect: Connect, lanes: int) -> None:
    connection = connect()
    add_jobs(connection, 5000, lanes)
    locker = connect(autocommit=False)
    locker.execute("select from jobs order by run_at limit 4000 for update")
    assert entries_read(connection, TYPES[:lanes]) <= 2.5 * 4000


# Transactions that were left open


def open_writer(connect: Connect) -> None:
    connect(autocommit=False).execute("select pg_current_xact_id()")


def open_enqueuer(connect: Connect) -> None:
    connect(autocommit=False).execute("select enqueue('type-0')")


def open_claim(connect: Connect) -> None:
    assert len(connect(autocommit=False).execute(CLAIM, {"types": TYPES}).fetchall()) == 10


def snapshot(connect: Connect) -> None:
    connection = connect(autocommit=False)
    connection.execute("set transaction isolation level repeatable read")
    connection.execute("select from jobs limit 1")


@pytest.mark.parametrize("left_open", [open_writer, open_enqueuer, open_claim, snapshot])
def test_claims_and_ticks_cost_the_same_beside_a_transaction_left_open(
    connect: Connect, left_open: Callable[[Connect], None]
) -> None:
    connection = connect()
    add_jobs(connection, 100)
    before = buffers(connection, CLAIM), buffers(connection, TICK)
    left_open(connect)
    run_jobs(connection, 10_000)
    add_jobs(connection, 1000)
    # At once or, if older transactions of other databases are just ending, some ticks later.
    assert any(buffers(connection, CLAIM) <= 2 * before[0] for _ in range(5))
    assert any(buffers(connection, TICK) <= 2 * before[1] + 200 for _ in range(5))


def test_claims_without_ticks_cost_the_same_beside_a_snapshot(connect: Connect) -> None:
    """A client that only calls claim_job_batch: its claims tick."""
    connection = connect()
    add_jobs(connection, 100)
    alone = entries_read(connection, TYPES)
    snapshot(connect)
    connection.execute("select setval('tick_clock', 0)")
    run_jobs(connection, 10_000, ticks=False)
    add_jobs(connection, 100)
    assert connection.execute("select count(*) > 1 from ticks").fetchone() == (True,)
    assert any(entries_read(connection, TYPES) <= alone + 1000 for _ in range(5))


def test_recovery_does_not_compare_every_job_with_every_other(connect: Connect) -> None:
    connection = connect()
    add_jobs(connection, 100)
    connection.execute("select register_worker('w', '1 minute', %s)", [TYPES])
    connection.execute("select from claim_jobs('w', %s, 100)", [TYPES])
    plans: list[str] = []
    connection.add_notice_handler(lambda notice: plans.append(notice.message_primary or ""))
    if connection.info.parameter_status("is_superuser") != "on":
        pytest.skip("only a superuser may load auto_explain")
    connection.execute("load 'auto_explain'")
    connection.execute("set auto_explain.log_min_duration = 0")
    connection.execute("set auto_explain.log_nested_statements = on")
    connection.execute("set client_min_messages = log")
    assert len(connection.execute("select from recover_worker('w', 'killed')").fetchall()) == 100
    (join,) = [plan for plan in plans if "Function Scan on settle_jobs" in plan]
    assert "Hash Join" in join
