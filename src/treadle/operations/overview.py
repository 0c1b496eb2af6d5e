"""The state of the whole queue, for the command line and the dashboard. No statement scans the whole table."""

from collections.abc import Sequence
from typing import Any

from treadle.db.database import Database
from treadle.db.queries import operations as operation_queries
from treadle.db.queries import overview as overview_queries
from treadle.db.queries.overview import Chart, LaneDepth, SampledCount
from treadle.db.query import Query
from treadle.words.changes import Pause
from treadle.words.overview import Lane, Overview, Total, WorkerRow
from treadle.words.status import Status

# The windows of the charts that are offered, in seconds, and the length of a span in each.
STEPS = {3600: 60, 21_600: 300, 86_400: 900, 604_800: 7200}


def overview(database: Database, window: int = 3600) -> Overview:
    """The overview, with charts of the last `window` seconds, which is one of STEPS."""
    return _together(*database.read_together(_queries(window)))


async def aoverview(database: Database, window: int = 3600) -> Overview:
    return _together(*await database.aread_together(_queries(window)))


def _queries(window: int) -> list[Query[Any]]:
    return [
        overview_queries.get_throughput(window, STEPS[window]),
        overview_queries.find_lanes(),
        overview_queries.find_recent_workers(),
        operation_queries.find_pauses(),
        overview_queries.count_sampled_jobs(),
        overview_queries.count_jobs_bounded(),
    ]


def _together(
    chart: Chart,
    lanes: Sequence[LaneDepth],
    workers: list[WorkerRow],
    pauses: list[Pause],
    sampled: Sequence[SampledCount],
    few: dict[Status, tuple[int, bool]],
) -> Overview:
    waiting = {(each.queue, each.job_type, each.priority): each.jobs for each in sampled if each.queue is not None}
    shown = []
    for lane in lanes:
        guess = lane.depth if lane.exact else max(lane.depth, waiting.get(lane[:3], 0))
        due = lane.due_first is not None and lane.due_first <= chart.at
        shown.append(
            Lane(
                lane.queue,
                lane.job_type,
                lane.priority,
                guess,
                lane.exact,
                lane.due_first if due else None,
                None if due else lane.due_first,
                lane.paused,
                any(_serves(worker, lane) for worker in workers),
            )
        )
    shown.sort(key=lambda lane: (-lane.depth, -lane.priority, lane.job_type, lane.queue))
    totals = _totals(sampled, few, shown)
    return Overview(chart.at, shown, workers, pauses, chart.spans, chart.step, totals, _rate(chart))


def _serves(worker: WorkerRow, lane: LaneDepth) -> bool:
    return (
        worker.alive
        and worker.concurrency != 0
        and worker.job_types is not None
        and lane.job_type in worker.job_types
        and (worker.queues is None or lane.queue in worker.queues)
    )


def _totals(
    sampled: Sequence[SampledCount], few: dict[Status, tuple[int, bool]], lanes: Sequence[Lane]
) -> dict[Status, Total]:
    guesses = dict.fromkeys(Status, 0)
    for each in sampled:
        guesses[each.status] += each.jobs
    totals = {}
    for status in Status:
        guess, exact = guesses[status], all(each.exact for each in sampled)
        if not exact and status in few:
            counted, all_of_them = few[status]
            guess, exact = (counted, True) if all_of_them else (max(counted, guess), False)
        elif not exact:
            guess = max(guess, sum(lane.depth for lane in lanes))
        totals[status] = Total(guess, exact)
    return totals


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
