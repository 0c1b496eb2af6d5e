"""Waiting for the database to be in a state, instead of for time to pass."""

import time
from typing import Any

from psycopg import Connection


def until_blocked(monitor: Connection[Any], deadline: float = 45.0) -> None:
    """Until some other connection to this database waits for a lock."""
    end = time.monotonic() + deadline
    while not monitor.execute(
        "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    ).fetchall():
        assert time.monotonic() < end, "nobody came to wait for a lock"
        time.sleep(0.005)


def until_settled(connection: Connection[Any], moment: object = None, deadline: float = 60.0) -> None:
    """Until ticks have settled the lanes past the moment, or as far as they will go: that waits for transactions in
    all of the server."""
    end = time.monotonic() + deadline
    condition = "max(settled) > %s" if moment else "bool_and(settled = floor and floor > %s)"
    while connection.execute(f"select {condition} from lanes", [moment or "-infinity"]).fetchone() != (True,):
        assert time.monotonic() < end, "the lanes did not settle"
        connection.execute("select tick('0')")
        time.sleep(0.005)


def tick_is_due(connection: Connection[Any]) -> None:
    """As if nobody had ticked for a while. On a slow machine a floor may have passed what was committed late, and the
    next claim that ticks finds it."""
    connection.execute("select setval('treadle.tick_clock', 0)")


def let_the_margin_pass(connection: Connection[Any]) -> None:
    """Until a floor may pass what is there now: a floor keeps 250 ms behind the clock (c_margin in tick.sql)."""
    connection.execute("select pg_sleep(0.3)")


class Gate:
    """Holds connections in the middle of a statement: a trigger that calls public.pass_gate() comes no further until
    the gate is opened. It asks again and again instead of waiting for a lock: a claim does not wait long for locks."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        connection.execute("select pg_advisory_lock(hashtext('gate'))")
        connection.execute(
            """create function public.pass_gate() returns void language plpgsql as $$ begin
            for attempt in 1..6000 loop
                if pg_try_advisory_xact_lock_shared(hashtext('gate')) then return; end if;
                perform pg_sleep(0.01);
            end loop;
            raise exception 'the gate was not opened';
            end $$"""
        )

    def until_reached(self, number: int = 1, deadline: float = 45.0) -> None:
        """Until so many connections stand before it."""
        end = time.monotonic() + deadline
        waiting = "select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'"
        while len(self._connection.execute(waiting).fetchall()) < number:
            assert time.monotonic() < end, f"fewer than {number} came to the gate"
            time.sleep(0.001)

    def open(self) -> None:
        self._connection.execute("select pg_advisory_unlock_all()")

    def remove(self) -> None:
        self.open()
        self._connection.execute("drop function public.pass_gate")
