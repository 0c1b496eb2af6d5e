"""The state of the whole queue. No query counts the table: the cost does not depend on the number of jobs."""

from datetime import datetime
from typing import NamedTuple

from treadle.db.queries.throughput import Chart as Chart
from treadle.db.queries.throughput import get_throughput as get_throughput
from treadle.db.queries.throughput import moments
from treadle.db.query import Query, Rows, call, statement
from treadle.words.overview import Total, WorkerRow
from treadle.words.status import Status


class LaneDepth(NamedTuple):
    queue: str
    job_type: str
    priority: int
    depth: int
    exact: bool
    counted_at: datetime | None
    """If it is not exact: when a worker counted it; None: there are at least this many."""
    due_first: datetime | None
    paused: bool


class Counts(NamedTuple):
    """How many jobs there are, without the pending ones that are not blocked."""

    totals: dict[Status, Total]
    blocked: Total


class Depth(NamedTuple):
    at: datetime
    jobs: int | None
    """None: no worker ran, and nobody counted."""


def find_depths() -> Query[list[LaneDepth]]:
    """How many jobs wait, by queue, type and priority."""
    columns = "queue, job_type, priority, depth, exact, counted_at, due_first, paused"
    return call("find_depths", {}, lambda rows: [LaneDepth._make(row) for row in rows], columns=columns)


def count_statuses() -> Query[Counts]:
    def read(rows: Rows) -> Counts:
        totals = {row[0]: Total(*row[1:]) for row in rows}
        blocked = totals.pop("blocked")
        return Counts({Status(status): total for status, total in totals.items()}, blocked)

    return call("count_statuses", {}, read, columns="status, jobs, exact, counted_at")


def get_depths(window: int, step: int, job_type: str | None = None, queue: str | None = None) -> Query[list[Depth]]:
    """How many jobs waited during the last `window` seconds, in consecutive spans of `step` seconds, a multiple of 60:
    the most in any minute of each span."""

    def read(rows: Rows) -> list[Depth]:
        known = {at: jobs for _, at, jobs in rows}
        return [Depth(at, known.get(at)) for at in moments(rows[0][0], window, step)]

    params = {"window": window, "step": step, "job_type": job_type, "queue": queue}
    return Query(statement("get_depths"), params, read)


def find_recent_workers() -> Query[list[WorkerRow]]:
    """Live workers, and those lost within the last hour."""
    return Query(statement("find_recent_workers"), {}, lambda rows: [WorkerRow._make(row) for row in rows])
