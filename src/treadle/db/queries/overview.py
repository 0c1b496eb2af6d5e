"""The state of the whole queue. No query counts the table: the cost does not depend on the number of jobs."""

from datetime import datetime
from typing import Any, NamedTuple

from treadle.db.queries.throughput import Chart as Chart
from treadle.db.queries.throughput import get_throughput as get_throughput
from treadle.db.queries.throughput import moments
from treadle.db.query import Query, Rows, call, statement
from treadle.words.overview import Total, WorkerRow, WorkerState
from treadle.words.status import Status
from treadle.words.stuck import StoppedChild, Stuck

# Suggestions: names of each kind that are returned, and rows of each table that are read for them.
MAX_NAMES = 200
NAMES_READ = 2000


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


class Names(NamedTuple):
    """In alphabetical order; at most 200 of each kind."""

    types: list[str]
    queues: list[str]
    workers: list[str]


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


def find_recent_workers(hours: int = 1) -> Query[list[WorkerRow]]:
    """Live workers, those lost within the last hours (a row is kept for a day), and those that still have jobs."""
    return Query(statement("find_recent_workers"), {"hours": hours}, lambda rows: [_worker(row) for row in rows])


def find_unhealthy_workers() -> Query[frozenset[object]]:
    """The workers that are stuck, lost or without heartbeats. Compare two results to see what has changed."""
    return Query(statement("find_unhealthy_workers"), {}, frozenset)


def _worker(row: tuple[Any, ...]) -> WorkerRow:
    known, (reported, in_children, has_children, children, lease), stuck = row[:13], row[13:18], Stuck.read(row[18:23])
    worker = WorkerRow._make(
        [*known, "alive", 0, 0, None, lease, stuck, *row[23:-2], StoppedChild.read(row[-2]), row[-1]]
    )
    slots, running = None, worker.holds
    if worker.concurrency is not None:
        # With a concurrency of 0 it claims nothing.
        beside = children if has_children and worker.concurrency else 0
        slots = worker.concurrency + beside
        # A worker starts what it claims while it has free slots, and reports only jobs that run for a while.
        running = max(reported, min(worker.holds - in_children, worker.concurrency) + min(in_children, beside))
    state: WorkerState = (
        "lost"
        if worker.lost_at
        else "silent"
        if not worker.alive
        else "stuck"
        if stuck
        else "asleep"
        if worker.asleep_at
        else "alive"
    )
    return worker._replace(state=state, slots=slots, running=running, prefetched=worker.holds - running)


def find_names(search: str | None = None, limit: int = MAX_NAMES) -> Query[Names]:
    """The job types, queues and workers that are known, in alphabetical order: of each kind `limit` at most."""

    def read(rows: Rows) -> Names:
        return Names(*([name for each, name in rows if each == kind] for kind in ("type", "queue", "worker")))

    return Query(statement("find_names"), {"search": search, "limit": limit, "read": NAMES_READ}, read)
