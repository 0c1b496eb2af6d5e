"""The jobs that benchmarks/lanes runs: ten job types, hence ten lanes, one with an argument that limits can be per, and
one that says when it started."""

import time
from pathlib import Path

from treadle import Job, Treadle

app = Treadle()

TYPES = [f"type{number}" for number in range(10)]


async def nothing() -> None:
    pass


for name in TYPES:
    app.job(name=name)(nothing)


@app.job
async def sync(tenant: str) -> None:
    pass


@app.job
async def stamp(job: Job, path: str) -> None:
    now = time.clock_gettime(time.CLOCK_MONOTONIC)
    Path(path).write_text(f"{job.id} {now}")  # noqa: ASYNC240 - a few bytes
