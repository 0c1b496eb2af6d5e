"""Waiting for the database to be in a state, instead of for time to pass."""

import time
from typing import Any

from psycopg import Connection


def until_blocked(monitor: Connection[Any], deadline: float = 10.0) -> None:
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
