"""The overview of the whole queue. The command line, the dashboard and metrics show these numbers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from treadle.db.database import Database
from treadle.db.queries import overview as overview_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.queries.overview import Chart, LaneDepth
from treadle.db.query import Query
from treadle.operations.state import QueueState, state_queries
from treadle.words.overview import Backlog, Overview, Total, WorkerRow
from treadle.words.snapshot import JobSnapshot
from treadle.words.status import Status

# The windows of the charts that are offered, in seconds, and the length of a span in each.
STEPS = {3600: 60, 21_600: 300, 86_400: 900, 604_800: 7200}


class JobCounts(NamedTuple):
    """How many jobs there are."""

    lanes: list[Backlog]
    """Waiting jobs by queue, type and priority, most first."""
    totals: dict[Status, Total]


def overview(database: Database, window: int = 3600, running: int = 0) -> Overview:
    """The overview, with charts of the last `window` seconds, one of STEPS, and up to `running` running jobs."""
    return _together(*database.read_together(_queries(window, running)))


async def aoverview(database: Database, window: int = 3600, running: int = 0) -> Overview:
    return _together(*await database.aread_together(_queries(window, running)))


def make_overview(state: QueueState, chart: Chart, running: list[JobSnapshot]) -> Overview:
    lanes, totals = count_jobs(state)
    running.sort(key=lambda each: (each.started_at is None, each.started_at, each.id))
    return Overview(
        state.at,
        lanes,
        state.workers,
        state.pauses,
        chart.spans,
        chart.step,
        totals,
        _rate(state.recent),
        running,
        state.refusal,
    )


def count_jobs(state: QueueState) -> JobCounts:
    lanes = [_lane(each, state.workers, state.at) for each in state.depths]
    lanes.sort(key=lambda lane: (-lane.depth, -lane.priority, lane.job_type, lane.queue))
    waiting = [Total(lane.depth, lane.exact, lane.counted_at) for lane in lanes]
    pending = add_totals([*waiting, state.counts.blocked])
    return JobCounts(lanes, {status: state.counts.totals.get(status, pending) for status in Status})


def _queries(window: int, running: int) -> list[Query[Any]]:
    return [
        overview_queries.get_throughput(window, STEPS[window]),
        snapshot_queries.find_snapshots([], running),
        *state_queries(),
    ]


def _together(chart: Chart, running: list[JobSnapshot], *state: Any) -> Overview:
    return make_overview(QueueState(*state), chart, running)


def _lane(depth: LaneDepth, workers: Sequence[WorkerRow], now: datetime) -> Backlog:
    due = depth.due_first is not None and depth.due_first <= now
    return Backlog(
        depth.queue,
        depth.job_type,
        depth.priority,
        depth.depth,
        depth.exact,
        depth.due_first if due else None,
        None if due else depth.due_first,
        depth.paused,
        any(serves(worker, depth) for worker in workers),
        depth.counted_at,
    )


def serves(worker: WorkerRow, lane: LaneDepth) -> bool:
    return (
        worker.alive
        and worker.concurrency != 0
        and worker.job_types is not None
        and lane.job_type in worker.job_types
        and (worker.queues is None or lane.queue in worker.queues)
    )


def add_totals(totals: Sequence[Total]) -> Total:
    estimates = [each for each in totals if not each.exact]
    counted = [each.counted_at for each in estimates if each.counted_at is not None]
    oldest = min(counted, default=None) if len(counted) == len(estimates) else None
    return Total(sum(each.jobs for each in totals), not estimates, oldest)


def _rate(chart: Chart) -> float:
    """Finished jobs per second: over the current span if a quarter of it has passed, else over the previous one."""
    finished = [span.completed + span.failed + span.cancelled for span in chart.spans]
    current = next((nth for nth, span in reversed(list(enumerate(chart.spans))) if span.at <= chart.counted), None)
    if current is None:
        return 0.0
    seconds = (chart.counted - chart.spans[current].at).total_seconds()
    if seconds >= chart.step / 4:
        return finished[current] / min(seconds, chart.step)
    return finished[current - 1] / chart.step if current else 0.0
