"""Between its claims, a session keeps the lanes that it searches. Whatever changes them is noticed at once."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.waiting import Barrier, wait_for_floor_margin

pytestmark = pytest.mark.fresh_database

TYPES = ["a", "b"]


def tick(connection: Connection[Any]) -> None:
    connection.execute("select tick('0')")


def claim(connection: Connection[Any]) -> list[str]:
    rows = connection.execute("select job_type from claim_jobs('w', %s, 10)", [TYPES]).fetchall()
    return [row[0] for row in rows]


def kept(connection: Connection[Any]) -> bool:
    """Whether the next claim can use what the last one has kept."""
    row = connection.execute(
        """
        select starts_with(
            current_setting('treadle' || '.lanes_' || 'lanes'::regclass::oid, true),
            concat_ws(' ', ticked.last_value, changed.last_value, %s::varchar[])
        )
        from tick_clock as ticked, lane_clock as changed
        """,
        [TYPES],
    ).fetchone()
    return row is not None and row[0] is True


def keep_lanes(connection: Connection[Any], other: Connection[Any], types: str = "a") -> None:
    """A lane of each of these types is listed, and the lanes are kept by the session of `connection`."""
    for each in types:
        other.execute("select enqueue(%s)", [each])
    wait_until_a_change_is_old(other)
    tick(other)
    assert len(claim(connection)) == len(types)
    assert kept(connection)


def wait_until_a_change_is_old(connection: Connection[Any]) -> None:
    """Lanes are kept only if none has changed within the last second."""
    connection.execute("select setval('lane_clock', last_value - 2000000) from lane_clock where last_value > 2000000")


def test_a_claim_reads_no_lane_that_it_has_kept(connect: Connect) -> None:
    connection, other = connect(), connect()
    keep_lanes(connection, other)
    other.execute("select enqueue('a')")
    read = """
        select pg_stat_get_xact_numscans('lanes'::regclass) + sum(pg_stat_get_xact_numscans(indexrelid))
        from pg_index
        where indrelid = 'lanes'::regclass
    """
    with connection.transaction():
        (before,) = connection.execute(read).fetchone() or (0,)
        assert claim(connection) == ["a"]
        assert connection.execute(read).fetchone() == (before,)


def test_a_new_lane_is_claimed_at_once(connect: Connect) -> None:
    connection, other = connect(), connect()
    keep_lanes(connection, other)
    other.execute("select enqueue('b')")
    assert claim(connection) == ["b"]


def test_a_lane_that_was_idle_is_claimed_at_once(connect: Connect) -> None:
    connection, other = connect(), connect()
    keep_lanes(connection, other, "ab")
    other.execute("update lanes set dormant_xid = pg_current_xact_id() where job_type = 'b'")
    wait_until_a_change_is_old(other)
    tick(other)
    assert claim(connection) == []
    assert kept(connection)
    other.execute("select enqueue('b')")
    assert claim(connection) == ["b"]


def test_other_job_types_and_queues_have_other_lanes(connect: Connect) -> None:
    connection, other = connect(), connect()
    keep_lanes(connection, other, "ab")
    other.execute("select enqueue('a'), enqueue('b')")
    only_b = "select job_type from claim_jobs('w', '{b}', 10, %s)"
    assert connection.execute(only_b, [["another"]]).fetchall() == []
    assert connection.execute(only_b, [None]).fetchall() == [("b",)]
    assert claim(connection) == ["a"]


def test_a_pause_and_its_end_hold_at_once(connect: Connect) -> None:
    connection, other = connect(), connect()
    keep_lanes(connection, other)
    other.execute("select enqueue('a')")
    other.execute("select pause(p_job_type => 'a')")
    assert claim(connection) == []
    wait_until_a_change_is_old(other)
    assert claim(connection) == []
    assert kept(connection)
    other.execute("select resume(p_job_type => 'a')")
    assert claim(connection) == ["a"]


def test_a_late_commit_is_found_after_the_next_tick(connect: Connect) -> None:
    connection, other, late = connect(), connect(), connect(autocommit=False)
    late.execute("select enqueue('a')")
    keep_lanes(connection, other)
    wait_for_floor_margin(other)
    tick(other)  # raises the floor
    assert claim(connection) == []
    assert kept(connection)
    late.commit()
    assert claim(connection) == [], "it is below the floor"
    tick(other)
    assert claim(connection) == ["a"]


def test_floors_are_not_kept_before_the_tick_that_lowers_them_is_visible(connect: Connect, barrier: Barrier) -> None:
    """The clock of the ticks moves just before a tick is visible."""
    connection, other, ticker = connect(), connect(), connect()
    late = connect(autocommit=False)
    late.execute("select enqueue('a')")
    keep_lanes(connection, other)
    wait_for_floor_margin(other)
    tick(other)
    late.commit()
    wait_until_a_change_is_old(other)
    wait_for_floor_margin(other)  # so that the last tick that can be seen is older
    other.execute(
        """
        create function public.wait_here() returns trigger language plpgsql as
        'begin perform public.pass_barrier(); return null; end';
        create constraint trigger wait_here after insert on ticks deferrable initially deferred
        for each row execute function public.wait_here();
        """
    )
    with ThreadPoolExecutor() as threads:
        ticked = threads.submit(tick, ticker)  # finds it
        barrier.wait_until_reached()
        assert claim(connection) == []
        assert not kept(connection)
        barrier.open()
        ticked.result()
    other.execute("drop function public.wait_here cascade")
    assert claim(connection) == ["a"]


def test_lanes_are_not_kept_while_a_change_commits(connect: Connect, barrier: Barrier) -> None:
    """The clock of the lanes moves just before a change is visible."""
    connection, other, late = connect(), connect(), connect()
    keep_lanes(connection, other)
    other.execute(
        """
        create function public.wait_here() returns trigger language plpgsql as
        'begin perform public.pass_barrier(); return null; end';
        create constraint trigger wait_here after insert on lanes deferrable initially deferred
        for each row execute function public.wait_here();
        """
    )
    with ThreadPoolExecutor() as threads:
        enqueued = threads.submit(late.execute, "select enqueue('b')")
        barrier.wait_until_reached()
        assert claim(connection) == [], "it has not committed"
        assert not kept(connection)
        barrier.open()
        enqueued.result(30)
    other.execute("drop function public.wait_here cascade")
    assert claim(connection) == ["b"]


def test_a_transaction_claims_what_it_has_enqueued(connect: Connect) -> None:
    connection, other = connect(), connect()
    keep_lanes(connection, other)
    with connection.transaction():
        assert claim(connection) == []
        connection.execute("select enqueue('b')")
        assert claim(connection) == ["b"]
        connection.execute("select enqueue('a')")
        connection.execute("select pause(p_job_type => 'a')")
        assert claim(connection) == []


def test_an_old_snapshot_keeps_nothing(connect: Connect) -> None:
    connection, other = connect(), connect()
    keep_lanes(connection, other)
    connection.execute("begin isolation level repeatable read")
    connection.execute("select from lanes")
    other.execute("select enqueue('b')")
    wait_until_a_change_is_old(other)
    assert claim(connection) == []
    connection.execute("commit")
    assert claim(connection) == ["b"]
