"""Jobs as an application has them: enqueued one by one, run by a worker, picked up by one that waits."""

import asyncio
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import quantiles

from treadle.app import Treadle
from treadle.cli.bench.against import payloads
from treadle.queue import JobQueue
from treadle.words.errors import TooSlow
from treadle.words.status import Status

SECONDS = 1.5
CONNECTIONS = 8
STAMPS = 150
# Between two jobs for an idle worker, so that each finds it asleep.
PAUSES = (0.01, 0.03)
PATIENCE = 60.0
# On a machine that is busy it may take long to start who renews it. Nobody waits for the jobs of this worker.
LEASE = "60s"


@dataclass(frozen=True)
class Single:
    """Jobs per second, each enqueued by a call of its own that returns when the job is safe."""

    connections: int
    rate: float


@dataclass(frozen=True)
class Latency:
    """From the call that enqueues until the first line of the handler, of a worker that has nothing else to do."""

    p50_ms: float
    p95_ms: float
    p99_ms: float


def enqueue_singly(url: str, schema: str, connections: int, seconds: float = SECONDS) -> Single:
    with JobQueue(url, schema=schema, pool_size=connections) as queue, ThreadPoolExecutor(connections) as threads:
        list(threads.map(lambda _: queue.enqueue("warm"), range(connections)))
        begin = time.perf_counter()

        def enqueue(_: int) -> int:
            done = 0
            while time.perf_counter() < begin + seconds:
                queue.enqueue("single", {"n": done, "path": "/tmp/picture.png"})  # noqa: S108 - only a text
                done += 1
            return done

        jobs = sum(threads.map(enqueue, range(connections)))
        return Single(connections, jobs / (time.perf_counter() - begin))


def drain(url: str, schema: str, jobs: int) -> float:
    """Jobs that do nothing, per second, from the first handler until the last outcome is written."""
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
                await _within(done, PATIENCE + jobs / 100)
                while True:
                    # Counted seldom: that takes some of the time that is measured.
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


def pick_up(url: str, schema: str, stamps: int = STAMPS) -> Latency:
    app = Treadle(url, schema=schema)
    taken: list[float] = []
    done = asyncio.Event()
    chance = random.Random(6)  # noqa: S311 - only a pace

    @app.job(name="stamp")
    async def stamp(at: float) -> None:
        taken.append((time.perf_counter() - at) * 1000)
        if len(taken) == stamps:
            done.set()

    async def work() -> None:
        try:
            async with app.worker(lease=LEASE):
                for _ in range(stamps):
                    await stamp.aenqueue(at=time.perf_counter())
                    await asyncio.sleep(chance.uniform(*PAUSES))
                await _within(done, PATIENCE)
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
            f"a worker in this process did not run its jobs within {seconds:,.0f} seconds; treadle doctor may say why"
        ) from None
