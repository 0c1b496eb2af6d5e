"""The application of chaos/soak.py: jobs of every kind, and the producer that enqueues them at a steady rate.

python -m chaos.soak_app RATE       until SIGTERM
"""

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from treadle import (
    Backoff,
    Debounce,
    Every,
    Job,
    Limit,
    MaxPending,
    Once,
    Retries,
    Snooze,
    Throttle,
    Treadle,
    TreadleError,
    events,
)
from treadle.words.clock import now

# Short retention, so that the table reaches its final size after a few minutes.
app = Treadle(keep={"completed": "3m", "cancelled": "3m", "failed": "3m"})
FLUSH_SECONDS = 1.0
# The share of each job type, in percent.
MIX = {
    "quick": 60,
    "limited": 10,
    "keyed": 8,
    "unique_job": 4,
    "delayed": 5,
    "fails_once": 4,
    "snoozes": 3,
    "publishes": 4,
    "gets_cancelled": 2,
}
# The ways in which a job is unique.
UNIQUE: list[Callable[[str], Once | Debounce | Throttle]] = [
    lambda key: Once(key=key),
    lambda key: Once(key=key, while_pending=True, on_conflict="replace"),
    lambda key: Debounce(0.5, key=key, at_most=2),
    lambda key: Throttle(3, "1s", key=key),
]


class Counters:
    """What this process counted since it last appended a line to the file."""

    def __init__(self) -> None:
        self._since = now()
        self._seen: dict[str, Any] = {}

    def add(self, what: str, value: float | None = None) -> None:
        if value is None:
            self._seen[what] = self._seen.get(what, 0) + 1
        else:
            self._seen.setdefault(what, []).append(round(value * 1000, 2))
        if now() - self._since > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        self._since = now()
        line, self._seen = json.dumps({"at": now(), **self._seen}), {}
        descriptor = os.open(os.environ["TREADLE_SOAK_COUNTERS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line.encode() + b"\n")
        finally:
            os.close(descriptor)


counters = Counters()


@app.on(events.JobCompleted)
def completed(event: events.JobCompleted) -> None:
    counters.add("done")


@app.on(events.WorkerStopped)
def stopped(event: events.WorkerStopped) -> None:
    counters.flush()


@app.job(schedule=Every("1s"))
async def scheduled() -> None:
    counters.add("made")  # by a worker, not by the producer


@app.job
async def quick(at: float) -> None:
    counters.add("latencies_ms", now() - at)


@app.job(limits=[Limit(5, per="tenant"), MaxPending(100_000, per="tenant")], fair_by="tenant")
async def limited(at: float) -> None:
    await asyncio.sleep(0.001)


@app.job
async def keyed(at: float) -> None:
    await asyncio.sleep(0.001)


@app.job
async def unique_job(at: float) -> None:
    await asyncio.sleep(0.001)


@app.job
def delayed(at: float) -> None:
    """Runs on a thread."""


@app.job(retry=Retries(backoff=Backoff(first="1s", limit="2s")))
async def fails_once(job: Job, at: float) -> None:
    if job.attempt == 1:
        raise ConnectionError("the first attempt fails")


@app.job
async def snoozes(at: float) -> None:
    if now() < at + 2:
        raise Snooze("2s")


@app.job
async def publishes(job: Job, at: float) -> None:
    for n in range(3):
        job.progress(n * 30, stage=f"part {n}")
        job.event("part", n=n)
        await asyncio.sleep(0.1)


@app.job
async def gets_cancelled(at: float) -> None:
    """Is cancelled by the producer while it runs."""
    await asyncio.sleep(30)


async def produce(rate: int) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    kinds, weights = list(MIX), list(MIX.values())
    running: set[asyncio.Task[None]] = set()

    # If the database cannot keep up, enqueues are late instead of piling up by the thousands.
    slots = asyncio.Semaphore(200)

    async def enqueue_in_slot(kind: str) -> None:
        async with slots:
            await enqueue(kind)

    async def enqueue(kind: str) -> None:
        options: dict[str, Any] = {}
        if kind == "keyed":
            options["key"] = f"key-{random.randrange(100)}"
        elif kind == "limited":
            options["partition"] = {"tenant": f"tenant-{random.randrange(50)}"}
        elif kind == "unique_job":
            options["unique"] = random.choice(UNIQUE)(f"unique-{random.randrange(20)}")
        elif kind == "delayed":
            options |= {"delay": 5, "expires": "10m"}
        try:
            handle = await app.function(kind).using(**options).aenqueue(at=now())
            if not handle.is_new:
                return
            counters.add("made")
            if kind == "gets_cancelled":
                await asyncio.sleep(1)
                await handle.acancel()
                counters.add("cancelled")
        except TreadleError as error:
            counters.add("refused")
            print(error, file=sys.stderr)

    began, sent = now(), 0
    while not stopping.is_set():
        for _ in range(int((now() - began) * rate) - sent):
            sent += 1
            if len(running) > 200 + rate:
                counters.add("left out")
                continue
            task = asyncio.create_task(enqueue_in_slot(random.choices(kinds, weights)[0]))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.sleep(0.01)
    await asyncio.gather(*running)
    counters.flush()
    await app.aclose()


if __name__ == "__main__":
    Path(os.environ["TREADLE_SOAK_COUNTERS"]).touch()
    asyncio.run(produce(int(sys.argv[1])))
