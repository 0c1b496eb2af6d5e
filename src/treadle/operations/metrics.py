"""The metrics of the queue, for Prometheus. They are read from the database: every process shows the same numbers, and
counters go on when workers are restarted.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from treadle.db.database import Database, DatabaseError
from treadle.db.queries import metrics as metric_queries
from treadle.db.queries.metrics import DatabaseMetrics, TypeTotals
from treadle.db.query import Query
from treadle.db.screen_limits import on_screen
from treadle.operations.overview import count_jobs
from treadle.operations.state import QueueState, state_queries
from treadle.words.errors import TreadleError
from treadle.words.overview import WorkerRow

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Sample(NamedTuple):
    labels: Mapping[str, str]
    value: float
    suffix: str = ""
    """Of the name: `_bucket`, `_sum` or `_count` of a histogram."""


class Metric(NamedTuple):
    name: str
    kind: str
    """gauge, counter or histogram."""
    help: str
    samples: list[Sample]


def histogram(labels: Mapping[str, str], bounds: Iterable[float], counts: Iterable[int], total: float) -> list[Sample]:
    """The samples of a histogram. There is one count for each bound, and one for larger values."""
    samples, sum_so_far = [], 0
    for bound, count in zip([*(f"{each:g}" for each in bounds), "+Inf"], counts, strict=False):
        sum_so_far += count
        samples.append(Sample({**labels, "le": bound}, sum_so_far, "_bucket"))
    return [*samples, Sample(labels, total, "_sum"), Sample(labels, sum_so_far, "_count")]


def exposition(metrics: Iterable[Metric]) -> str:
    lines = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value, suffix in metric.samples:
            shown = ",".join(f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels.items())
            lines.append(f"{metric.name}{suffix}{{{shown}}} {value}" if shown else f"{metric.name}{suffix} {value}")
    return "\n".join([*lines, ""])


# Several scrapers, or one with a short interval, read the same numbers.
CACHE_SECONDS = 2.5
# Less than the 10 seconds that Prometheus waits.
READ_SECONDS = 3.0

_STATUSES = ("completed", "failed", "cancelled")


def metrics(database: Database) -> list[Metric]:
    return _metrics(*database.read_together(_queries()))


async def ametrics(database: Database) -> list[Metric]:
    return _metrics(*await database.aread_together(_queries()))


class MetricsPage:
    """The metrics as text, read at most once every CACHE_SECONDS. If the database cannot be read, there is only
    `treadle_up`, which is 0."""

    content_type = CONTENT_TYPE

    def __init__(self, database: Database) -> None:
        self.database = database
        self._text = ""
        self._read_at = -CACHE_SECONDS
        self._lock: asyncio.Lock | None = None
        self._reading: asyncio.Task[list[Metric]] | None = None

    async def text(self) -> str:
        # Created here because a lock belongs to the event loop that first waits for it.
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            if time.monotonic() - self._read_at >= CACHE_SECONDS:
                self._text = await self._read()
                self._read_at = time.monotonic()
            return self._text

    async def _read(self) -> str:
        reading = self._reading
        if reading is None or reading.get_loop() is not asyncio.get_running_loop():
            with on_screen():
                reading = self._reading = asyncio.create_task(ametrics(self.database))
            reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        # It is not cancelled: the driver would take seconds to cancel a statement if the server does not answer.
        done, _ = await asyncio.wait({reading}, timeout=READ_SECONDS)
        if not done:
            return exposition([_up(0)])
        self._reading = None
        try:
            return exposition([_up(1), *reading.result()])
        except (TreadleError, DatabaseError):
            return exposition([_up(0)])


def _up(value: int) -> Metric:
    return Metric("treadle_up", "gauge", "Whether the database could be read.", [Sample({}, value)])


def _queries() -> list[Query[Any]]:
    return [
        metric_queries.find_totals(),
        metric_queries.get_database_metrics(),
        *state_queries(),
    ]


def _metrics(totals: Sequence[TypeTotals], database: DatabaseMetrics, *read: Any) -> list[Metric]:
    state = QueueState(*read)
    return [*_jobs(state), *_finished(totals), *_workers(state.workers), *_database(state, database)]


def _jobs(state: QueueState) -> list[Metric]:
    """Waiting jobs by queue and type; those of several priorities are added up."""
    counted = count_jobs(state)
    totals = counted.totals.items()
    depth: dict[tuple[str, str], int] = {}
    age: dict[tuple[str, str], float] = {}
    estimated: dict[tuple[str, str], bool] = {}
    paused: dict[tuple[str, str], bool] = {}
    for lane in counted.lanes:
        of = lane.queue, lane.job_type
        depth[of] = depth.get(of, 0) + lane.depth
        due = 0.0 if lane.due_since is None else max(0.0, (state.at - lane.due_since).total_seconds())
        age[of] = max(age.get(of, 0.0), due)
        estimated[of] = estimated.get(of, False) or not lane.exact
        paused[of] = paused.get(of, False) or lane.paused
    return [
        Metric(
            "treadle_jobs", "gauge", "Jobs by status.", [Sample({"status": name}, each.jobs) for name, each in totals]
        ),
        Metric(
            "treadle_jobs_is_estimated",
            "gauge",
            "1: treadle_jobs is not exact, because there are too many to count.",
            [Sample({"status": name}, int(not each.exact)) for name, each in totals],
        ),
        _by_type("treadle_jobs_waiting", "Pending jobs that can be claimed, now or later.", depth),
        _by_type(
            "treadle_jobs_waiting_is_estimated",
            "1: treadle_jobs_waiting is not exact, because there are too many to count.",
            estimated,
        ),
        _by_type("treadle_oldest_due_seconds", "For how long the oldest due job has waited.", age),
        _by_type("treadle_paused", "1: jobs are not started, because they are paused.", paused),
    ]


def _finished(totals: Sequence[TypeTotals]) -> list[Metric]:
    finished, errors, waited, ran = [], [], [], []
    for each in totals:
        labels = {"queue": each.queue, "job_type": each.job_type}
        finished += [Sample({**labels, "status": status}, getattr(each, status)) for status in _STATUSES]
        errors.append(Sample(labels, each.errors))
        waited += histogram(labels, each.buckets, each.waited_counts, each.waited)
        ran += histogram(labels, each.buckets, each.ran_counts, each.ran)
    return [
        Metric("treadle_jobs_finished_total", "counter", "Finished jobs by status.", finished),
        Metric(
            "treadle_attempts_failed_total", "counter", "Failed attempts, including those that were retried.", errors
        ),
        Metric("treadle_job_wait_seconds", "histogram", "How long completed jobs waited from due to claimed.", waited),
        Metric("treadle_job_run_seconds", "histogram", "How long the handlers of completed jobs ran.", ran),
    ]


def _workers(workers: Sequence[WorkerRow]) -> list[Metric]:
    slots = sum(each.concurrency or 0 for each in workers if each.alive)
    found = Counter(each.state for each in workers)
    states = [Sample({"state": state}, found[state]) for state in ("alive", "asleep", "stuck", "silent", "lost")]
    return [
        Metric(
            "treadle_workers",
            "gauge",
            "Worker processes: alive, asleep (without work), stuck (the event loop does not run, or claimed jobs do "
            "not begin), silent (no heartbeat), or lost lately.",
            states,
        ),
        _one("treadle_worker_slots", "How many jobs the live workers run at once.", slots),
        _one(
            "treadle_stopped_children",
            "Child processes of live workers that were stopped, by a signal or a debugger.",
            sum(not child.starting for each in workers if each.alive for child in each.stopped_children),
        ),
        _one("treadle_jobs_claimed", "Jobs that workers have claimed or run.", sum(each.holds for each in workers)),
    ]


def _database(state: QueueState, found: DatabaseMetrics) -> list[Metric]:
    counted = max(0.0, (state.at - state.recent.counted).total_seconds())
    rows = [Sample({"state": "live"}, found.live_rows), Sample({"state": "dead"}, found.dead_rows)]
    sizes = [Sample({"part": "table"}, found.table_bytes), Sample({"part": "indexes"}, found.index_bytes)]
    return [
        _one(
            "treadle_writable",
            "0: the server refuses what workers write, for example because its disk is full.",
            int(state.refusal is None),
        ),
        _one("treadle_counted_seconds", "How long ago finished jobs were last counted, by a worker.", counted),
        _one(
            "treadle_tick_age_seconds",
            "How long ago a worker last moved the places where claims start to look; -1: never.",
            found.tick_age,
        ),
        Metric("treadle_table_rows", "gauge", "Rows of the table of jobs, as PostgreSQL estimates them.", rows),
        Metric("treadle_table_bytes", "gauge", "Size of the table of jobs and of its indexes.", sizes),
        _one(
            "treadle_oldest_transaction_seconds",
            "For how long the oldest transaction in the database has been open.",
            found.oldest_transaction,
        ),
        _one(
            "treadle_transaction_id_age",
            "Transactions since the oldest one that is not frozen; PostgreSQL stops at 2 billion.",
            found.transaction_age,
        ),
        _one("treadle_database_connections", "Connections to the server.", found.connections),
        _one("treadle_database_max_connections", "The limit of connections to the server.", found.max_connections),
    ]


def _by_type(name: str, text: str, values: dict[tuple[str, str], Any]) -> Metric:
    samples = [
        Sample({"queue": queue, "job_type": job_type}, int(value) if isinstance(value, bool) else value)
        for (queue, job_type), value in values.items()
    ]
    return Metric(name, "gauge", text, samples)


def _one(name: str, text: str, value: float) -> Metric:
    return Metric(name, "gauge", text, [Sample({}, value)])
