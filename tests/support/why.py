"""What the tests of `why` share."""

from typing import Any

from psycopg import Connection


def register_worker(
    connection: Connection[Any],
    types: str = "{mail}",
    worker_id: str = "w1",
    queues: str | None = None,
    places: int = 50,
    process_types: str | None = None,
    children: int | None = None,
) -> None:
    """Register a worker with a long lease. It exists only in the table, so it claims nothing."""
    connection.execute(
        "select register_worker(%s, '1 hour', %s, %s, %s, 'host', 7, '0.1', %s, %s)",
        [worker_id, types, queues, places, process_types, children],
    )
