"""The jobs of the demo: one of every kind, none of which does anything."""

import asyncio
import os
import time

from treadle import Backoff, Job, Priority, Treadle

app = Treadle(schema="treadle_demo")


@app.job(priority=Priority.EXPLICIT)
async def thumbnail(job: Job, picture: int) -> int:
    """On the event loop."""
    for percent, stage in ((10, "loading"), (40, "resizing"), (80, "saving")):
        job.progress(percent, stage=stage)
        await asyncio.sleep(0.4)
    return picture * 100


@app.job
def import_rows(job: Job, file: str, rows: int = 40) -> int:
    """On a thread."""
    for row in range(rows):
        job.progress(100 * row / rows, stage=f"row {row} of {rows}")
        time.sleep(0.05)
    return rows


@app.job(process=True)
def render(job: Job, film: str) -> str:
    """In a process of its own, which could be killed alone."""
    for frame in range(20):
        job.progress(5 * frame, stage=f"frame {frame}")
        time.sleep(0.1)
    return f"{film}.mp4"


@app.job(priority=Priority.BACKFILL, backoff=Backoff(first="1s"))
async def mail(job: Job, to: str) -> str:
    """Fails at first, and is tried again a second later."""
    job.progress(20, stage="connecting")
    await asyncio.sleep(0.4)
    if job.attempt == 1 and to.startswith("grace"):
        raise ConnectionError("mail.example.org hung up")
    return "sent"


@app.job
def crash(job: Job) -> str:
    """Takes the worker's process down, once: another is started, and the job is run apart from the others."""
    job.progress(50, stage="about to die")
    time.sleep(0.5)
    if job.fence == 1:
        os._exit(1)
    return "survived"


@app.job
async def forever(job: Job) -> None:
    """Until somebody cancels it."""
    percent = 0
    while True:
        percent = (percent + 2) % 100
        job.progress(percent, stage="going round")
        await asyncio.sleep(0.1)
