"""What finished: by time, by type and queue, and the slowest jobs. All of it is read from what workers have counted, so
that the cost does not depend on the number of jobs."""

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from treadle.db.query import Query, Rows, statement
from treadle.words.overview import Span
from treadle.words.percentiles import BUCKETS, NO_TIMES, Histogram


class Chart(NamedTuple):
    at: datetime
    """Now, by the database's clock."""
    counted: datetime
    """Finished jobs are counted up to this time."""
    step: int
    spans: list[Span]


class Finished(NamedTuple):
    """What finished in a time."""

    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    errors: int = 0
    """Failed attempts, including those that were retried."""
    waited: Histogram = NO_TIMES
    ran: Histogram = NO_TIMES

    def __add__(self, other: object) -> "Finished":
        if not isinstance(other, Finished):
            return NotImplemented
        return Finished(
            self.completed + other.completed,
            self.failed + other.failed,
            self.cancelled + other.cancelled,
            self.errors + other.errors,
            self.waited + other.waited,
            self.ran + other.ran,
        )


class FinishedPlace(NamedTuple):
    job_type: str
    queue: str
    finished: Finished


class SlowJob(NamedTuple):
    """The slowest job of a span."""

    id: UUID
    at: datetime
    """The beginning of the span in which it completed."""
    job_type: str
    queue: str
    ran: float
    exists: bool
    """False: it was deleted since."""


def moments(now: datetime, window: int, step: int) -> list[datetime]:
    """When the spans of a chart begin."""
    end = int(now.timestamp()) // step * step
    begin = int((now - timedelta(seconds=window)).timestamp()) // step * step
    return [datetime.fromtimestamp(each, UTC) for each in range(begin, end + 1, step)]


def get_throughput(window: int, step: int, job_type: str | None = None, queue: str | None = None) -> Query[Chart]:
    """The last `window` seconds in consecutive spans of `step` seconds: 60, 300, 900 or 7200."""

    def read(rows: Rows) -> Chart:
        now, counted = rows[0][:2]
        known = {row[2]: _span(row[2], _finished(row[3:])) for row in rows if row[2] is not None}
        spans = [known.get(at) or _span(at, Finished()) for at in moments(now, window, step)]
        return Chart(now, counted, step, spans)

    return _query(statement("get_throughput"), window, step, job_type, queue, read)


def find_finished_places(
    window: int, step: int, job_type: str | None = None, queue: str | None = None
) -> Query[list[FinishedPlace]]:
    """The sums of the last `window` seconds, by type and queue."""

    def read(rows: Rows) -> list[FinishedPlace]:
        return [FinishedPlace(row[0], row[1], _finished(row[2:])) for row in rows]

    return _query(statement("find_finished_places"), window, step, job_type, queue, read)


def find_slowest_jobs(
    window: int, step: int, limit: int, job_type: str | None = None, queue: str | None = None
) -> Query[list[SlowJob]]:
    """The slowest completed job of each span, type and queue; the slowest first."""

    def read(rows: Rows) -> list[SlowJob]:
        return [SlowJob._make(row) for row in rows]

    return _query(statement("find_slowest_jobs"), window, step, job_type, queue, read, limit=limit)


def _query(
    text: str, window: int, step: int, job_type: str | None, queue: str | None, read: Any, **more: Any
) -> Query[Any]:
    params = {"window": window, "step": step, "job_type": job_type, "queue": queue, **more}
    return Query(_whole(text, job_type is not None, queue is not None), params, read)


@cache
def _whole(text: str, has_type: bool, has_queue: bool) -> str:
    """With clauses only for what is given, so that the planner needs not know the values to use an index."""
    clauses = ["and span.job_type = %(job_type)s"] * has_type + ["and span.queue = %(queue)s"] * has_queue
    counts = ",\n        ".join(
        f"array[{', '.join(f'coalesce(sum({name}[{nth}]::float8), 0)' for nth in range(1, BUCKETS + 1))}]::bigint[]"
        for name in ("finished.waited_counts", "finished.ran_counts")
    )
    # As float8, which is exact up to 2^53: a sum of bigint is numeric, and takes three times as long.
    sums = ", ".join(
        f"coalesce(sum(finished.{name}::float8), 0)::bigint" for name in ("completed", "failed", "cancelled", "errors")
    )
    times = "sum(finished.waited), max(finished.waited_most), sum(finished.ran), max(finished.ran_most)"
    whole = statement("finished_spans").replace("/* of the span */", " ".join(clauses)) + text
    return whole.replace("/* sums */", f"{sums},\n        {times},\n        {counts}")


def _finished(row: tuple[Any, ...]) -> Finished:
    completed, failed, cancelled, errors, waited, waited_most, ran, ran_most, waited_counts, ran_counts = row
    return Finished(
        completed,
        failed,
        cancelled,
        errors,
        Histogram(waited_counts, waited, waited_most),
        Histogram(ran_counts, ran, ran_most),
    )


def _span(at: datetime, done: Finished) -> Span:
    waited, ran = done.waited.times(done.completed), done.ran.times(done.completed)
    return Span(
        at,
        done.completed,
        done.failed,
        done.cancelled,
        done.errors,
        *(waited.mean, waited.most, ran.mean, ran.most),
        *(waited.p50, waited.p95, waited.p99, ran.p50, ran.p95, ran.p99),
    )
