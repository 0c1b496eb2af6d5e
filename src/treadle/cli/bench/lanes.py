"""Measures what several job types cost: the same jobs in one lane, and spread over job types and queues."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from treadle.cli.bench.comparison import clear, payloads
from treadle.cli.bench.jobs import SCHEMA, TYPES, job_type
from treadle.cli.bench.workload import LEASE
from treadle.db.query import in_schema
from treadle.db.setup_connection import connect
from treadle.queue import JobQueue
from treadle.settings import without_settings
from treadle.words.errors import TooSlow

# Jobs in a row that belong to one lane, as if an application had enqueued them together.
IN_A_ROW = 200
BATCH, CLAIMS = 10, 200
TIMEOUT = 60.0


@dataclass(frozen=True)
class Spread:
    types: int
    lanes: int


@dataclass(frozen=True)
class SpreadFigures:
    types: int
    lanes: int
    drain_rate: float
    """No-op jobs per second by all worker processes together."""
    claim_ms: float
    """The median time of a claim of 10 jobs on one connection."""


@dataclass(frozen=True)
class LaneComparison:
    processes: int
    one: SpreadFigures
    several: SpreadFigures | None
    """None if there is only one lane to measure."""

    @property
    def drain_ratio(self) -> float | None:
        return self.several.drain_rate / self.one.drain_rate if self.several else None

    @property
    def claim_ratio(self) -> float | None:
        return self.several.claim_ms / self.one.claim_ms if self.several else None


def compare_lanes(url: str, schema: str, jobs: int, spread: Spread, processes: int) -> LaneComparison:
    one = _measure(url, schema, jobs, Spread(1, 1), processes)
    several = _measure(url, schema, jobs, spread, processes) if spread.lanes > 1 else None
    return LaneComparison(processes, one, several)


def _measure(url: str, schema: str, jobs: int, spread: Spread, processes: int) -> SpreadFigures:
    clear(url, schema)
    enqueue_spread(url, schema, jobs, spread)
    claim_ms = _claim(url, schema, min(CLAIMS, jobs // BATCH // 2), spread)
    clear(url, schema)
    drain_rate = _drain(url, schema, jobs, spread, processes)
    return SpreadFigures(spread.types, spread.lanes, drain_rate, claim_ms)


def enqueue_spread(url: str, schema: str, jobs: int, spread: Spread) -> None:
    """Enqueue jobs into all lanes in turn: at least one job each, usually some in a row."""
    size = max(1, min(IN_A_ROW, jobs // spread.lanes))
    with JobQueue(url, schema=schema) as queue:
        for nth, first in enumerate(range(0, jobs, size)):
            lane = nth % spread.lanes
            queue.enqueue_many(
                job_type(lane % spread.types),
                payloads(min(size, jobs - first)),
                queue=f"queue{lane // spread.types}",
            )


def _claim(url: str, schema: str, claims: int, spread: Spread) -> float:
    types = [job_type(number) for number in range(spread.types)]
    taken = []
    with JobQueue(url, "bench", schema=schema) as queue:
        queue.claim(types, BATCH)  # the first one fills caches
        for _ in range(claims):
            begin = time.perf_counter()
            queue.claim(types, BATCH)
            taken.append((time.perf_counter() - begin) * 1000)
    return median(taken)


def _drain(url: str, schema: str, jobs: int, spread: Spread, processes: int) -> float:
    """Jobs per second. They are enqueued while everything is paused, so that all processes begin together."""
    with connect(url) as connection:

        def ask(statement: str) -> Any:
            ((answer,),) = connection.execute(in_schema(statement, schema).encode()).fetchall()
            return answer

        ask("select treadle.pause()")
        enqueue_spread(url, schema, jobs, spread)
        before = ask("select count(*) from treadle.workers")
        with _worker(url, schema, spread, processes) as worker:
            started = "select count(*) from treadle.workers"
            _wait(worker, lambda: ask(started) - before >= processes, TIMEOUT)
            ask("select treadle.resume()")
            left = "select exists (select from treadle.jobs where status in ('pending', 'claimed', 'running'))"
            _wait(worker, lambda: not ask(left), TIMEOUT + jobs / 100)
        return float(
            ask(
                """select count(*) / extract(epoch from max(completed_at) - min(claimed_at))
                from treadle.jobs where status = 'completed'"""
            )
        )


@contextmanager
def _worker(url: str, schema: str, spread: Spread, processes: int) -> Iterator[subprocess.Popen[bytes]]:
    """`treadle worker` with this many processes. It ends before the schema is dropped, also after Ctrl-C."""
    command = [sys.executable, "-m", "treadle", "worker", "treadle.cli.bench.jobs:app", "--lease", LEASE]
    own = {"TREADLE_DATABASE_URL": url, SCHEMA: schema, TYPES: str(spread.types)}
    worker = subprocess.Popen(
        [*command, "--processes", str(processes), "--log-level", "error"],
        env=without_settings("worker", os.environ) | own,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield worker
    finally:
        worker.terminate()
        worker.wait()


def _wait(worker: subprocess.Popen[bytes], done: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not done():
        if worker.poll() is not None or time.monotonic() > end:
            said = f"ended with code {worker.returncode}" if worker.returncode is not None else "was too slow"
            raise TooSlow(
                f"the benchmark's worker processes did not run their jobs within {seconds:,.0f} s: their supervisor "
                f"{said}; with fewer --processes they may, and for the cause, run: treadle doctor"
            )
        # Not more often, because counting takes some of the time that is measured.
        time.sleep(0.05)
