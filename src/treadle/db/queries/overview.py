"""The state of the whole queue. No query counts the table: the cost does not depend on the number of jobs."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from treadle.db.query import Query, Rows, call, statement
from treadle.words.overview import Span, WorkerRow
from treadle.words.status import Status

# Suggestions: names of each kind that are returned, and rows of each table that are read for them.
MAX_NAMES = 200
NAMES_READ = 2000


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


class Names(NamedTuple):
    types: list[str]
    queues: list[str]
    workers: list[str]


class Chart(NamedTuple):
    at: datetime
    """Now, by the database's clock."""
    counted: datetime
    """Finished jobs are counted up to this time."""
    step: int
    spans: list[Span]


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


def find_names(search: str | None = None, limit: int = MAX_NAMES) -> Query[Names]:
    """The job types, queues and workers that are known, in alphabetical order: of each kind `limit` at most."""

    def read(rows: Rows) -> Names:
        return Names(*([name for each, name in rows if each == kind] for kind in ("type", "queue", "worker")))

    return Query(statement("find_names"), {"search": search, "limit": limit, "read": NAMES_READ}, read)


def get_throughput(window: int, step: int, job_type: str | None = None) -> Query[Chart]:
    """The last `window` seconds in consecutive spans of `step` seconds."""

    def read(rows: Rows) -> Chart:
        now, counted = rows[0][:2]
        known = {row[2]: _span(row[2:]) for row in rows if row[2] is not None}
        end = int(now.timestamp()) // step * step
        begin = int((now - timedelta(seconds=window)).timestamp()) // step * step
        moments = [datetime.fromtimestamp(each, UTC) for each in range(begin, end + 1, step)]
        nothing = (0, 0, 0, 0, None, None, None, None)
        return Chart(now, counted, step, [known.get(at) or Span(at, *nothing) for at in moments])

    return Query(statement("get_throughput"), {"window": window, "step": step, "job_type": job_type}, read)


def _span(row: tuple[object, ...]) -> Span:
    at, completed, failed, cancelled, errors, waited, waited_most, ran, ran_most = row
    if not completed:
        return Span._make((at, completed, failed, cancelled, errors, None, None, None, None))
    return Span._make(
        (at, completed, failed, cancelled, errors, waited / completed, waited_most, ran / completed, ran_most)  # type: ignore[operator]
    )
