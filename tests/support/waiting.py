"""Waits until the database is in some state, instead of sleeping."""

import time
from typing import Any

from psycopg import Connection


def until_waiting_for_lock(monitor: Connection[Any], deadline: float = 45.0) -> None:
    """Wait until a connection to this database waits for a lock."""
    end = time.monotonic() + deadline
    while not monitor.execute(
        "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    ).fetchall():
        assert time.monotonic() < end, "no connection waits for a lock"
        time.sleep(0.005)


def until_floors_pass(
    connection: Connection[Any], moment: object, deadline: float = 60.0, *, touch: bool = False
) -> None:
    """Tick until the floor of a lane is later than the moment. Only lanes of jobs that were just finished get new
    floors: `touch` makes the finished ones count as such, for a test that has just a few."""
    end = time.monotonic() + deadline
    while connection.execute("select max(floor) > %s from floors", [moment]).fetchone() != (True,):
        assert time.monotonic() < end, "no floor passed the moment"
        if touch:
            connection.execute("update jobs set finished_at = clock_timestamp() where status = 'completed'")
        connection.execute("select tick('0')")
        time.sleep(0.005)


def until_ticks_change_nothing(connection: Connection[Any], deadline: float = 60.0) -> None:
    end = time.monotonic() + deadline
    while [connection.execute("select tick('0')").fetchone() for _ in range(3)] != [(0,)] * 3:
        assert time.monotonic() < end, "ticks still change lanes"


def make_tick_due(connection: Connection[Any]) -> None:
    """Make the next claim run a tick. On a slow machine the floor may have passed jobs that were committed late, and
    a tick finds them."""
    connection.execute("select setval('treadle.tick_clock', 0)")


def wait_for_floor_margin(connection: Connection[Any]) -> None:
    """Wait until a floor may pass the present jobs: a floor stays 250 ms behind the clock (c_margin in tick.sql)."""
    connection.execute("select pg_sleep(0.3)")


class Barrier:
    """Stops connections in the middle of a statement: a trigger that calls public.pass_barrier() waits until the
    barrier is opened. It polls instead of waiting for a lock, because a claim gives up a lock after a short time."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        connection.execute("select pg_advisory_lock(hashtext('barrier'))")
        connection.execute(
            """create function public.pass_barrier() returns void language plpgsql as $$ begin
            for attempt in 1..6000 loop
                if pg_try_advisory_xact_lock_shared(hashtext('barrier')) then return; end if;
                perform pg_sleep(0.01);
            end loop;
            raise exception 'the barrier was not opened';
            end $$"""
        )

    def wait_until_reached(self, number: int = 1, deadline: float = 45.0) -> None:
        """Wait until this many connections wait at the barrier."""
        end = time.monotonic() + deadline
        waiting = "select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'"
        while len(self._connection.execute(waiting).fetchall()) < number:
            assert time.monotonic() < end, f"fewer than {number} connections reached the barrier"
            time.sleep(0.001)

    def open(self) -> None:
        self._connection.execute("select pg_advisory_unlock_all()")

    def remove(self) -> None:
        self.open()
        self._connection.execute("drop function public.pass_barrier")
