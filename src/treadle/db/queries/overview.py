"""The state of the whole queue. No query counts the table: the cost does not depend on the number of jobs."""

from datetime import datetime
from typing import NamedTuple

from treadle.db.queries.throughput import Chart as Chart
from treadle.db.queries.throughput import get_throughput as get_throughput
from treadle.db.query import Query, Rows, call, statement
from treadle.words.overview import WorkerRow
from treadle.words.status import Status


class LaneDepth(NamedTuple):
    queue: str
    job_type: str
    priority: int
    depth: int
    exact: bool
    """False: there are at least this many."""
    due_first: datetime | None
    paused: bool


class SampledCount(NamedTuple):
    status: Status
    queue: str | None
    job_type: str | None
    priority: int | None
    jobs: int
    exact: bool


def find_lanes() -> Query[list[LaneDepth]]:
    """The lanes of different partitions are added up: otherwise each of a thousand tenants would have its own."""
    columns = "queue, job_type, priority, depth, depth < counted_to, due_first, paused"

    def read(rows: Rows) -> list[LaneDepth]:
        lanes: dict[tuple[str, str, int], LaneDepth] = {}
        for lane in map(LaneDepth._make, rows):
            lanes[lane[:3]] = _together(lanes[lane[:3]], lane) if lane[:3] in lanes else lane
        return list(lanes.values())

    return call("find_lanes", {}, read, columns=columns)


def _together(one: LaneDepth, other: LaneDepth) -> LaneDepth:
    first = min(filter(None, (one.due_first, other.due_first)), default=None)
    return one._replace(depth=one.depth + other.depth, exact=one.exact and other.exact, due_first=first)


def count_sampled_jobs() -> Query[list[SampledCount]]:
    """Estimated from a sample of the table."""
    columns = "status, queue, job_type, priority, jobs, exact"
    return call(
        "sample_jobs", {}, lambda rows: [SampledCount(Status(row[0]), *row[1:]) for row in rows], columns=columns
    )


def count_jobs_bounded() -> Query[dict[Status, tuple[int, bool]]]:
    """By status, up to a limit; and whether the count is complete."""
    return Query(
        statement("count_jobs_bounded"), {}, lambda rows: {Status(row[0]): (row[1], bool(row[2])) for row in rows}
    )


def find_recent_workers() -> Query[list[WorkerRow]]:
    """Live workers, and those lost within the last hour."""
    return Query(statement("find_recent_workers"), {}, lambda rows: [WorkerRow._make(row) for row in rows])
