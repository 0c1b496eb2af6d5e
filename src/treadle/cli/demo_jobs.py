"""The jobs of the demo: one of every kind. They do no work, they only sleep."""

import asyncio
import os
import time

from treadle import Backoff, Job, Priority, Retries, Treadle

app = Treadle(schema="treadle_demo")

# The tests of the demo set it, so that they take less time.
SPEED = float(os.environ.get("TREADLE_DEMO_SPEED", "1"))


def _wait(seconds: float) -> None:
    time.sleep(seconds / SPEED)


async def _await(seconds: float) -> None:
    await asyncio.sleep(seconds / SPEED)


@app.job(priority=Priority.EXPLICIT)
async def thumbnail(job: Job, picture: str) -> str:
    """Async, with a high priority because a user waits for it."""
    for percent, stage in ((10, "loading"), (40, "resizing"), (80, "saving")):
        job.progress(percent, stage=stage)
        await _await(0.5)
    return f"{picture}.png"


@app.job
def import_rows(job: Job, file: str, rows: int = 240) -> int:
    """On a thread. Because it counts rows, it has a rate and a time left. The next attempt starts at its checkpoint."""
    done = job.checkpoint or 0
    for row in job.track(range(done, rows), rows, stage="importing", done=done):
        _wait(0.02)
        if row % 60 == 59:
            job.save(row + 1)
            job.event("saved", file=file, rows=row + 1)
    return rows


@app.job(process=True)
def render(job: Job, film: str) -> str:
    """In a child process, with nested stages that each are a share of the whole."""
    with job.stage("drawing", weight=0.4):
        for _ in job.track(range(60)):
            _wait(0.02)
    with job.stage("encoding"):
        for nth in (1, 2):
            for _ in job.track(range(40), stage=f"pass {nth}", weight=0.5):
                _wait(0.03)
    return f"{film}.mp4"


@app.job(priority=Priority.BACKFILL)
async def newsletter(job: Job, readers: int = 80) -> int:
    """Publishes events while it runs."""
    for reader in job.track(range(readers), stage="sending"):
        await _await(0.04)
        if reader % 30 == 20:
            job.event("bounced", to=f"reader-{reader}@example.org")
    return readers


@app.job(retry=Retries(backoff=Backoff(first="1s")))
async def mail(job: Job, to: str) -> str:
    """Fails once, and is retried after 1 s."""
    job.progress(20, stage="connecting")
    await _await(0.6)
    if job.attempt == 1:
        raise ConnectionError("mail.example.org closed the connection")
    job.progress(70, stage="sending")
    await _await(0.6)
    return to


@app.job(retry=Retries(backoff=Backoff(first="1s")))
def order(job: Job, number: int) -> int:
    """The second attempt skips the steps that are done, so the card is charged once."""
    charged_by = job.step("charge the card", lambda: _take(job, 20, "charging"))
    job.step("pack", lambda: _take(job, 50, "packing"))
    if job.attempt == 1:
        raise ConnectionError("the courier closed the connection")
    job.step("ship", lambda: _take(job, 80, "shipping"))
    return charged_by


@app.job
async def reminder(job: Job, text: str) -> str:
    """Enqueued with a delay."""
    job.progress(50, stage="notifying")
    await _await(0.6)
    return text


@app.job
async def booking(job: Job, seat: str) -> str:
    """With a key: bookings for the same train run one at a time, in order."""
    job.progress(30, stage=f"booking {seat}")
    await _await(0.9)
    return seat


@app.job
async def scan(job: Job) -> None:
    """Runs until it is cancelled."""
    for number in job.track(iter(range(10**9)), stage="scanning"):
        await _await(0.05)
        if number % 60 == 0:
            job.event("nothing found", sectors=number)


@app.job
def backup(job: Job, files: int = 120) -> int:
    """Its worker process is killed while it runs. Returns where the last run started: at the checkpoint, not at 0."""
    began_at = job.checkpoint or 0
    if began_at:
        job.event("resumed", at_file=began_at)
    for file in job.track(range(began_at, files), files, stage="copying", done=began_at):
        time.sleep(0.03)  # at any speed, because it is killed in the middle
        if file % 10 == 9:
            job.save(file + 1)
    return began_at


def _take(job: Job, percent: int, stage: str) -> int:
    """Returns the number of the attempt that ran the step."""
    job.progress(percent, stage=stage)
    _wait(0.5)
    return job.attempt
