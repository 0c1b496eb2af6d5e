"""Measures jobs as applications use them: single enqueues, the throughput of a worker, the latency of an idle one."""

import asyncio
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import quantiles

from treadle.app.treadle import Treadle
from treadle.cli.bench.comparison import payloads
from treadle.queue import JobQueue
from treadle.words.connections import Connections
from treadle.words.errors import TooSlow
from treadle.words.status import Status

SECONDS = 1.5
CONNECTIONS = 8
STAMPS = 150
# Seconds between two jobs for the idle worker, so that it is idle again when the next one comes.
PAUSES = (0.01, 0.03)
TIMEOUT = 60.0
# Long, because on a busy machine the process that renews it starts slowly. No other worker waits for these jobs.
LEASE = "60s"


@dataclass(frozen=True)
class Single:
    """Jobs per second, each enqueued by its own call, which returns after the commit."""

    connections: int
    rate: float


@dataclass(frozen=True)
class Latency:
    """From the enqueue call to the first line of the handler, with an idle worker."""

    p50_ms: float
    p95_ms: float
    p99_ms: float


def measure_single_enqueues(url: str, schema: str, connections: int) -> Single:
    with (
        JobQueue(url, schema=schema, connections=Connections(pool_size=connections)) as queue,
        ThreadPoolExecutor(connections) as threads,
    ):
        list(threads.map(lambda _: queue.enqueue("warm"), range(connections)))
        begin = time.perf_counter()

        def enqueue(_: int) -> int:
            done = 0
            while time.perf_counter() < begin + SECONDS:
                queue.enqueue("single", {"n": done, "path": "/tmp/picture.png"})  # noqa: S108 - only text
                done += 1
            return done

        jobs = sum(threads.map(enqueue, range(connections)))
        return Single(connections, jobs / (time.perf_counter() - begin))


def measure_worker(url: str, schema: str, jobs: int) -> float:
    """No-op jobs per second, from the first handler until the last outcome is written."""
    app = Treadle(url, schema=schema)
    ran, first = 0, 0.0
    done = asyncio.Event()

    @app.job(name="noop")
    async def noop(n: int, path: str) -> None:
        nonlocal ran, first
        ran += 1
        if ran == 1:
            first = time.perf_counter()
        if ran == jobs:
            done.set()

    async def work() -> float:
        try:
            async with app.worker(lease=LEASE):
                await _within(done, TIMEOUT + jobs / 100)
                while True:
                    # Not more often, because counting takes some of the time that is measured.
                    if (await app.queue.acounts())[Status.COMPLETED] == jobs:
                        return jobs / (time.perf_counter() - first)
                    await asyncio.sleep(0.01)
        finally:
            await app.aclose()

    app.queue.enqueue_many("noop", payloads(jobs))
    try:
        return asyncio.run(work())
    finally:
        app.close()


def measure_pick_up(url: str, schema: str) -> Latency:
    app = Treadle(url, schema=schema)
    taken: list[float] = []
    done = asyncio.Event()
    jitter = random.Random(6)  # noqa: S311 - not used for security

    @app.job(name="stamp")
    async def stamp(at: float) -> None:
        taken.append((time.perf_counter() - at) * 1000)
        if len(taken) == STAMPS:
            done.set()

    async def work() -> None:
        try:
            async with app.worker(lease=LEASE):
                for _ in range(STAMPS):
                    await stamp.aenqueue(at=time.perf_counter())
                    await asyncio.sleep(jitter.uniform(*PAUSES))
                await _within(done, TIMEOUT)
        finally:
            await app.aclose()

    asyncio.run(work())
    points = quantiles(taken, n=100, method="inclusive")
    return Latency(points[49], points[94], points[98])


async def _within(done: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(done.wait(), seconds)
    except TimeoutError:
        raise TooSlow(
            f"the benchmark's worker did not run its jobs within {seconds:,.0f} s; for the cause, run: treadle doctor"
        ) from None
