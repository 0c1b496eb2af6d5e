"""Queries for metrics. Their cost does not depend on the number of jobs."""

from typing import NamedTuple

from treadle.db.query import Query, statement

# Types, or types in different queues, that have metrics: those of which most has finished.
MOST_TYPES = 500


class TypeTotals(NamedTuple):
    """What has finished of a type, in a queue."""

    queue: str
    job_type: str
    completed: int
    failed: int
    cancelled: int
    errors: int
    """Failed attempts, including those that were retried."""
    waited: float
    ran: float
    waited_counts: list[int]
    """How many of the completed jobs waited how long: one count for each of `buckets`, and one for longer times."""
    ran_counts: list[int]
    buckets: list[float]


class DatabaseMetrics(NamedTuple):
    tick_age: float
    """Seconds since the last tick; -1 if there was none."""
    live_rows: int
    dead_rows: int
    table_bytes: int
    index_bytes: int
    oldest_transaction: float
    transaction_age: int
    """The transactions since the oldest one that is not frozen."""
    connections: int
    max_connections: int


def find_totals() -> Query[list[TypeTotals]]:
    return Query(
        statement("find_totals"),
        {"limit": MOST_TYPES},
        lambda rows: [TypeTotals._make(row) for row in rows],
        pinned=True,
    )


def get_database_metrics() -> Query[DatabaseMetrics]:
    return Query(statement("get_database_metrics"), {}, lambda rows: DatabaseMetrics._make(rows[0]), pinned=True)
