"""Limits against ends, other claims and changes, in forced orders."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.queue.test_limits import claim, complete, enqueue, limit, waiting_lanes
from tests.support.waiting import Barrier, until_waiting_for_lock

Rows = Connection[Any]

LIMITED = "select settle_jobs('w', %s, %s, %s, p_delays => %s)"


@pytest.fixture(autouse=True)
def no_tick(connection: Rows) -> None:
    """A claim makes no tick if one was just made; a tick would find what a claim has missed."""
    connection.execute("select tick('0')")


def limited(connection: Rows, rows: list[Any], *seconds: float) -> None:
    """The handlers of these jobs are told to wait."""
    ids = [row[0] for row in rows]
    connection.execute(LIMITED, [ids, [1] * len(ids), ["limited"] * len(ids), list(seconds)])


def test_two_claims_and_one_slot_of_several(connect: Connect, connection: Rows) -> None:
    limit(connection, 2)
    enqueue(connection, 6)
    complete(connection, *claim(connection, 1))
    one, two = connect(), connect()
    two.execute("set lock_timeout = '2s'")
    with one.transaction():
        assert len(claim(one, 1)) == 1
        assert claim(two) == [], "nobody counts while another claim may add some"
    assert waiting_lanes(connection) == 0
    assert len(claim(two)) == 1


def test_no_lane_waits_for_a_limit_that_another_claim_has_locked(connect: Connect, connection: Rows) -> None:
    limit(connection, 1)
    enqueue(connection, 5)
    (first,) = claim(connection)
    one = connect()
    with one.transaction(force_rollback=True):
        complete(one, first)
        assert len(claim(one)) == 1
        assert claim(connection) == []
        assert waiting_lanes(connection) == 0


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_claim_on_an_older_snapshot_takes_no_job_under_a_limit(
    connect: Connect, connection: Rows, isolation: str
) -> None:
    """It would not see the jobs that were claimed since."""
    limit(connection, 2)
    enqueue(connection, 6)
    older = connect()
    older.execute(f"begin isolation level {isolation}".encode())
    older.execute("select from limit_holders")
    assert len(claim(connection, 1)) == 1
    (second,) = claim(connection, 1)
    complete(connection, second)
    assert len(claim(connection, 1)) == 1
    assert claim(older) == []
    older.execute("commit")
    assert waiting_lanes(connection) == 0
    assert claim(older) == []
    assert connection.execute("select count(*) from jobs where status = 'claimed'").fetchone() == (2,)


def test_a_job_ends_while_its_lane_becomes_dormant(connect: Connect, connection: Rows) -> None:
    """It does not see that lanes wait, and the claim does not see that it has ended."""
    limit(connection, 1)
    enqueue(connection, 2)
    (first,) = claim(connection)
    one = connect()
    with one.transaction():
        complete(one, first)
        assert claim(connection) == []
    time.sleep(0.011)
    assert len(claim(connection)) == 1


def test_opened_lanes_are_searched_if_there_are_no_others(connection: Rows) -> None:
    """Also by a claim in a transaction that has written, which makes no tick."""
    limit(connection, 1)
    enqueue(connection, 2)
    (first,) = claim(connection)
    assert claim(connection) == []
    complete(connection, first)
    connection.execute("select setval('tick_clock', 1)")
    with connection.transaction():
        connection.execute("select pg_current_xact_id()")
        assert len(claim(connection)) == 1


def test_a_job_ends_while_its_limit_is_found_reached(connect: Connect, connection: Rows) -> None:
    """As above; its transaction stays open for longer."""
    limit(connection, 1)
    enqueue(connection, 2)
    (first,) = claim(connection)
    one = connect()
    with one.transaction():
        complete(one, first)
        assert claim(connection) == []
        assert waiting_lanes(connection) == 1
        time.sleep(0.011)
        assert claim(connection) == []
    time.sleep(0.1)
    assert len(claim(connection)) == 1


def test_an_opening_is_not_forgotten_by_a_claim_that_did_not_see_the_end(connect: Connect, connection: Rows) -> None:
    """The end commits after the claim has begun, and before the claim deletes openings. The table lock makes the claim
    wait there: it waits for `one`, and the claim waits behind it."""
    limit(connection, 1)
    enqueue(connection, 2)
    (first,) = claim(connection)
    assert claim(connection) == []
    one, lock, two = connect(), connect(), connect()
    one.execute("select reopen_limit('sync')")
    with ThreadPoolExecutor(2) as threads:
        with one.transaction():
            complete(one, first)
            locked = threads.submit(lock_openings, lock)
            until_waiting_for_lock(connection)
            claimed = threads.submit(claim, two)
            until(connection, "select count(*) = 2 from pg_locks where not granted")
        locked.result(30)
        found = claimed.result(30)
    assert len(found or claim(connection)) == 1


def lock_openings(connection: Rows) -> None:
    with connection.transaction():
        connection.execute("lock table limit_openings in share row exclusive mode")


def until(connection: Rows, condition: str) -> None:
    end = time.monotonic() + 30
    while connection.execute(condition).fetchone() != (True,):
        assert time.monotonic() < end, condition
        time.sleep(0.005)


def test_a_claim_that_leaves_room_leaves_the_lane_to_the_next(connection: Rows) -> None:
    limit(connection, 2)
    enqueue(connection, 5)
    first = claim(connection)
    assert claim(connection) == []
    complete(connection, *first)
    assert [row[2] for row in claim(connection, 1)] == [2]
    assert [row[2] for row in claim(connection, 1)] == [3]


def test_a_job_that_was_claimed_again_counts_once(connection: Rows) -> None:
    limit(connection, 2)
    enqueue(connection, 3)
    (first,) = claim(connection, 1)
    connection.execute("select release_job(%s)", [first[0]])
    assert claim(connection, 1) == [first]
    assert [row[2] for row in claim(connection, 1)] == [1]
    assert claim(connection, 1) == []


def test_a_higher_limit_opens_at_once(connection: Rows) -> None:
    limit(connection, 1)
    enqueue(connection, 3)
    claim(connection)
    assert claim(connection) == []
    time.sleep(0.11)
    assert claim(connection) == [], "it looks once more"
    connection.execute("select set_limit('sync', 2)")
    assert len(claim(connection)) == 1


def test_a_change_that_nobody_noted_is_found_by_a_tick(connection: Rows) -> None:
    limit(connection, 1)
    enqueue(connection, 2)
    (first,) = claim(connection)
    assert claim(connection) == []
    time.sleep(0.11)
    assert claim(connection) == [], "it looks once more"
    connection.execute("delete from limit_openings")
    connection.execute("set session_replication_role = replica")
    connection.execute("update jobs set status = 'completed', finished_at = now() where id = %s", [first[0]])
    connection.execute("reset session_replication_role")
    assert claim(connection) == []
    connection.execute("select setval('tick_clock', 1)")
    connection.execute("select tick('0')")
    assert [row[2] for row in claim(connection)] == [1]


def test_nobody_overtakes_a_heavy_job(connection: Rows) -> None:
    """Not in a claim that searches again because another limit is reached, either."""
    limit(connection, 5)
    limit(connection, 1, name="other", job_types=["other"])
    enqueue(connection, 1, "light")
    enqueue(connection, 1, "heavy", weight=5)
    connection.execute("select enqueue_jobs('other', array_fill('{\"tenant\": \"other\"}'::text, '{2}'))")
    enqueue(connection, 3, "late")
    assert sorted(row[1] for row in claim(connection, 4, types="{sync,other}")) == ["light", "other"]


def test_nobody_overtakes_a_heavy_job_in_the_next_claim_of_a_transaction(connection: Rows) -> None:
    limit(connection, 5)
    enqueue(connection, 1, "light")
    enqueue(connection, 1, "heavy", weight=5)
    enqueue(connection, 3, "late")
    with connection.transaction():
        (light,) = claim(connection, 2)
        complete(connection, light)
        assert [row[1] for row in claim(connection, 2)] == ["heavy"]


def test_a_heavy_job_fits_after_others_have_ended(connection: Rows) -> None:
    limit(connection, 5)
    enqueue(connection, 3)
    complete(connection, *claim(connection))
    enqueue(connection, 1, "heavy", weight=4)
    assert [row[1] for row in claim(connection, 1)] == ["heavy"]


def test_heavy_jobs_of_one_claim_add_up(connection: Rows) -> None:
    limit(connection, 5)
    enqueue(connection, 2, weight=3)
    assert len(claim(connection)) == 1


def test_a_quiet_time_does_not_add_to_the_burst(connection: Rows) -> None:
    limit(connection, 10, 1.0, burst=1)
    enqueue(connection, 5)
    assert len(claim(connection)) == 1
    time.sleep(0.35)
    assert len(claim(connection)) == 1
    assert claim(connection) == []


def test_a_limit_that_was_closed_gives_nothing(connection: Rows) -> None:
    limit(connection, 100, 1.0, per="tenant")
    enqueue(connection, 5, "acme")
    enqueue(connection, 1, "globex")
    rows = claim(connection, 1)
    limited(connection, rows, 0.5)
    assert [row[1] for row in claim(connection)] == ["globex"]
    time.sleep(0.55)
    assert len(claim(connection)) == 5


def test_a_limit_is_closed_after_the_claim_that_uses_it(connect: Connect, connection: Rows) -> None:
    limit(connection, 100, 1.0)
    enqueue(connection, 5)
    rows = claim(connection, 1)
    one, two = connect(), connect()
    with ThreadPoolExecutor(1) as thread:
        with one.transaction():
            assert len(claim(one, 1)) == 1
            closing = thread.submit(limited, two, rows, 60.0)
            until_waiting_for_lock(connection)
        closing.result(30)
    assert claim(connection) == []


def test_two_workers_close_the_same_limits_in_another_order(
    connect: Connect, connection: Rows, barrier: Barrier
) -> None:
    limit(connection, 100, 1.0, per="tenant")
    for tenant in ("acme", "globex", "globex", "acme"):
        enqueue(connection, 1, tenant)
    rows = sorted(claim(connection))
    assert [row[1] for row in rows] == ["acme", "globex", "globex", "acme"]
    connection.execute(
        """create function public.stop_at_barrier() returns trigger language plpgsql as $$ begin
        perform public.pass_barrier(); return null; end $$"""
    )
    connection.execute(
        "create trigger stop after insert on limit_openings for each row execute function public.stop_at_barrier()"
    )
    try:
        with ThreadPoolExecutor(2) as threads:
            closing = [threads.submit(limited, connect(), some, 60.0, 61.0) for some in (rows[:2], rows[2:])]
            until(
                connection,
                """select count(*) = 2 from pg_stat_activity
                where datname = current_database() and (wait_event_type = 'Lock' or wait_event = 'PgSleep')""",
            )
            barrier.open()
            for each in closing:
                each.result(30)
    finally:
        connection.execute("drop function public.stop_at_barrier cascade")


def test_nobody_waits_for_longer_after_the_clock_was_set_back(connection: Rows) -> None:
    """The limit was used up by a clock that was a day ahead."""
    limit(connection, 10, 1.0, burst=1)
    enqueue(connection, 2)
    assert len(claim(connection)) == 1
    assert claim(connection) == []
    ahead = "interval '1 day'"
    connection.execute(f"update limit_holders set full_at = full_at + {ahead}")
    connection.execute(f"update limit_openings set opens_at = opens_at + {ahead}")
    connection.execute(f"select reset_floors(clock_timestamp() + {ahead}, clock_timestamp())")
    deadline = time.monotonic() + 10
    while not claim(connection):
        assert time.monotonic() < deadline


def test_a_claim_that_takes_long_does_not_add_to_a_rate(connection: Rows) -> None:
    """What starts counts from when it was claimed, not from when the claim began."""
    limit(connection, 2, 1, burst=1)
    enqueue(connection, 3)
    connection.execute("""
        create function public.slow() returns trigger language plpgsql as $$
        begin
            perform pg_sleep(0.6);
            return new;
        end $$;
        create trigger slow before update on jobs for each row
            when (new.status = 'claimed') execute function public.slow()
    """)
    assert len(claim(connection, 1)) == 1
    connection.execute("drop function public.slow() cascade")
    assert claim(connection, 1) == []
    time.sleep(0.51)
    assert len(claim(connection, 1)) == 1


@pytest.mark.parametrize("used_before", [True, False])
def test_a_claim_that_stays_open_keeps_only_the_limits_of_its_jobs(connect: Connect, used_before: bool) -> None:
    connection, other = connect(), connect()
    limit(connection, 1, per="tenant")
    tenants = ["a", "b", "c", "d"]
    for tenant in tenants:
        enqueue(connection, 2, tenant=tenant)
    if used_before:
        complete(connection, *claim(connection))
    with other.transaction():
        ((_, first, _),) = claim(other, 1)
        assert sorted(row[1] for row in claim(connection)) == [each for each in tenants if each != first]
