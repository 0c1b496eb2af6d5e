"""Measures one thing after the other: about a minute on a server that is near."""

from collections.abc import Callable
from dataclasses import dataclass

from treadle.cli.bench.against import Report, clear, measure_in
from treadle.cli.bench.scratch import left_behind, scratch_schema
from treadle.cli.bench.server import Server, look_at
from treadle.cli.bench.work import CONNECTIONS, Latency, Single, drain, enqueue_singly, pick_up


@dataclass(frozen=True)
class Figures:
    server: Server
    singles: list[Single]
    worker_rate: float
    pick_up: Latency
    report: Report
    left_behind: list[str]


def measure_all(url: str, jobs: int, rounds: int, said: Callable[[str], None] = lambda _: None) -> Figures:
    with scratch_schema(url) as schema:
        report = measure_in(url, schema, jobs, rounds, said)
        clear(url, schema)
        said("round trip and commit")
        server = look_at(url, schema)
        said("pick-up of single jobs")
        latency = pick_up(url, schema)
        singles = []
        for connections in (1, CONNECTIONS):
            said(f"enqueue on {connections} connection{'s' * (connections > 1)}")
            singles.append(enqueue_singly(url, schema, connections))
        said("a worker")
        clear(url, schema)
        worker_rate = drain(url, schema, jobs)
        return Figures(server, singles, worker_rate, latency, report, left_behind(url, schema))
