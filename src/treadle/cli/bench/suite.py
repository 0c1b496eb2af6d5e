"""Runs all measurements one after the other. Takes about a minute with a server close by."""

from collections.abc import Callable
from dataclasses import dataclass

from treadle.cli.bench.comparison import Report, clear, measure_in
from treadle.cli.bench.lanes import LaneComparison, Spread, compare_lanes
from treadle.cli.bench.scratch import left_behind, scratch_schema
from treadle.cli.bench.server import Server, measure_server
from treadle.cli.bench.workload import (
    CONNECTIONS,
    Latency,
    Single,
    measure_pick_up,
    measure_single_enqueues,
    measure_worker,
)


@dataclass(frozen=True)
class Figures:
    server: Server
    singles: list[Single]
    worker_rate: float
    pick_up: Latency
    report: Report
    lanes: LaneComparison
    left_behind: list[str]


def measure_all(
    url: str,
    jobs: int,
    rounds: int,
    spread: Spread,
    processes: int,
    report_step: Callable[[str], None] = lambda _: None,
) -> Figures:
    with scratch_schema(url) as schema:
        report = measure_in(url, schema, jobs, rounds, report_step)
        clear(url, schema)
        report_step("round trip and commit")
        server = measure_server(url, schema)
        report_step("pick-up of single jobs")
        latency = measure_pick_up(url, schema)
        singles = []
        for connections in (1, CONNECTIONS):
            report_step(f"enqueue on {connections} connection{'s' * (connections > 1)}")
            singles.append(measure_single_enqueues(url, schema, connections))
        report_step("a worker process")
        clear(url, schema)
        worker_rate = measure_worker(url, schema, jobs)
        report_step(f"one lane and {spread.lanes}, {processes} worker process{'es' * (processes > 1)}")
        lanes = compare_lanes(url, schema, jobs, spread, processes)
        return Figures(server, singles, worker_rate, latency, report, lanes, left_behind(url, schema))
