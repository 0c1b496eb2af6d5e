"""What handlers have written: to a table of the test, and as events."""

from typing import Any

from psycopg import Connection


def written(connection: Connection[Any]) -> list[str]:
    """The rows of the table that the fixture `effects` makes."""
    return [row[0] for row in connection.execute("select what from public.effects order by what")]


def stored_events(connection: Connection[Any]) -> list[tuple[int, str]]:
    """The number and name of every event."""
    return connection.execute("select number, name from events order by job_id, number").fetchall()
