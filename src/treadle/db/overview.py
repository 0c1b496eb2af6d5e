"""Looks at the whole queue, as queries. None of them counts the table: each costs the same whatever it holds."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from treadle.db.query import Query, Rows, statement
from treadle.words.overview import Span, WorkerRow
from treadle.words.status import Status


class LaneCount(NamedTuple):
    queue: str
    job_type: str
    priority: int
    depth: int
    exact: bool
    """False: at least so many."""
    due_first: datetime | None
    paused: bool


class Sampled(NamedTuple):
    status: Status
    queue: str | None
    job_type: str | None
    priority: int | None
    jobs: int
    exact: bool


class Chart(NamedTuple):
    at: datetime
    """Now, by the database's clock."""
    counted: datetime
    """Up to when ends were counted."""
    step: int
    spans: list[Span]


def see_lanes(schema: str) -> Query[list[LaneCount]]:
    return Query(statement("see_lanes", schema), {}, lambda rows: [LaneCount._make(row) for row in rows])


def sample_jobs(schema: str) -> Query[list[Sampled]]:
    return Query(statement("sample_jobs", schema), {}, lambda rows: [Sampled(Status(row[0]), *row[1:]) for row in rows])


def count_few(schema: str) -> Query[dict[Status, tuple[int, bool]]]:
    """By status, and whether these are all."""
    return Query(
        statement("count_rare_statuses", schema),
        {},
        lambda rows: {Status(row[0]): (row[1], bool(row[2])) for row in rows},
    )


def see_workers(schema: str) -> Query[list[WorkerRow]]:
    return Query(statement("find_workers", schema), {}, lambda rows: [WorkerRow._make(row) for row in rows])


def see_minutes(schema: str, window: int, step: int, job_type: str | None = None) -> Query[Chart]:
    """The last `window` seconds in spans of `step` seconds, none left out."""

    def read(rows: Rows) -> Chart:
        now, counted = rows[0][:2]
        known = {row[2]: _span(row[2:]) for row in rows if row[2] is not None}
        end = int(now.timestamp()) // step * step
        begin = int((now - timedelta(seconds=window)).timestamp()) // step * step
        moments = [datetime.fromtimestamp(each, UTC) for each in range(begin, end + 1, step)]
        nothing = (0, 0, 0, 0, None, None, None, None)
        return Chart(now, counted, step, [known.get(at) or Span(at, *nothing) for at in moments])

    return Query(statement("get_minutes", schema), {"window": window, "step": step, "job_type": job_type}, read)


def _span(row: tuple[object, ...]) -> Span:
    at, completed, failed, cancelled, errors, waited, waited_most, ran, ran_most = row
    if not completed:
        return Span._make((at, completed, failed, cancelled, errors, None, None, None, None))
    return Span._make(
        (at, completed, failed, cancelled, errors, waited / completed, waited_most, ran / completed, ran_most)  # type: ignore[operator]
    )
