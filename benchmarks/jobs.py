"""The jobs that benchmarks/worker.py runs."""

import asyncio
import time
from pathlib import Path

from treadle import Job, Treadle

app = Treadle()


@app.job
async def noop() -> None:
    pass


@app.job
async def sleep5() -> None:
    await asyncio.sleep(0.005)


@app.job
async def stamp(job: Job, path: str) -> None:
    now = time.clock_gettime(time.CLOCK_MONOTONIC)
    Path(path).write_text(f"{job.id} {now}")  # noqa: ASYNC240 - a few bytes
