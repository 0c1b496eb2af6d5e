"""The jobs of the demo: one of every kind. None of them does anything but take its time."""

import asyncio
import time

from treadle import Backoff, Job, Priority, Treadle

app = Treadle(schema="treadle_demo")


@app.job(priority=Priority.EXPLICIT)
async def thumbnail(job: Job, picture: str) -> str:
    """On the event loop. Somebody waits for it."""
    for percent, stage in ((10, "loading"), (40, "resizing"), (80, "saving")):
        job.progress(percent, stage=stage)
        await asyncio.sleep(0.5)
    return f"{picture}.png"


@app.job
def import_rows(job: Job, file: str, rows: int = 240) -> int:
    """On a thread. Counted, so that there is a rate and a time left; what it saves, the next attempt would find."""
    done = job.checkpoint or 0
    for row in job.track(range(done, rows), rows, stage="importing", done=done):
        time.sleep(0.02)
        if row % 60 == 59:
            job.save(row + 1)
            job.event("saved", file=file, rows=row + 1)
    return rows


@app.job(process=True)
def render(job: Job, film: str) -> str:
    """In a process of its own, which could be killed alone. Stages within stages, each a part of the whole."""
    with job.stage("drawing", weight=0.4):
        for _ in job.track(range(60)):
            time.sleep(0.02)
    with job.stage("encoding"):
        for nth in (1, 2):
            for _ in job.track(range(40), stage=f"pass {nth}", weight=0.5):
                time.sleep(0.03)
    return f"{film}.mp4"


@app.job(priority=Priority.BACKFILL)
async def newsletter(job: Job, readers: int = 80) -> int:
    """What happens on the way is told in events."""
    for reader in job.track(range(readers), stage="sending"):
        await asyncio.sleep(0.04)
        if reader % 30 == 20:
            job.event("bounced", to=f"reader-{reader}@example.org")
    return readers


@app.job(backoff=Backoff(first="1s"))
async def mail(job: Job, to: str) -> str:
    """Fails at first, and is tried again a second later."""
    job.progress(20, stage="connecting")
    await asyncio.sleep(0.6)
    if job.attempt == 1:
        raise ConnectionError("mail.example.org hung up")
    job.progress(70, stage="sending")
    await asyncio.sleep(0.6)
    return to


@app.job(backoff=Backoff(first="1s"))
def order(job: Job, number: int) -> int:
    """Steps that are done are not done again: the card is charged by the first attempt, and by no other."""
    charged_by = job.step("charge the card", lambda: _take(job, 20, "charging"))
    job.step("pack", lambda: _take(job, 50, "packing"))
    if job.attempt == 1:
        raise ConnectionError("the courier hung up")
    job.step("ship", lambda: _take(job, 80, "shipping"))
    return charged_by


@app.job
async def reminder(job: Job, text: str) -> str:
    """Enqueued for later."""
    job.progress(50, stage="ringing")
    await asyncio.sleep(0.6)
    return text


@app.job
async def booking(job: Job, seat: str) -> str:
    """With a key: one after the other, in order."""
    job.progress(30, stage=f"booking {seat}")
    await asyncio.sleep(0.9)
    return seat


@app.job
async def scan(job: Job) -> None:
    """Until somebody cancels it."""
    for number in job.track(iter(range(10**9)), stage="scanning"):
        await asyncio.sleep(0.05)
        if number % 60 == 0:
            job.event("nothing found", sectors=number)


@app.job
def backup(job: Job, files: int = 120) -> int:
    """Its worker process is killed in the middle. Returns where the last run began: at what was saved, not at 0."""
    began_at = job.checkpoint or 0
    if began_at:
        job.event("goes on", at_file=began_at)
    for file in job.track(range(began_at, files), files, stage="copying", done=began_at):
        time.sleep(0.03)
        if file % 10 == 9:
            job.save(file + 1)
    return began_at


def _take(job: Job, percent: int, stage: str) -> int:
    """Returns which attempt did it."""
    job.progress(percent, stage=stage)
    time.sleep(0.5)
    return job.attempt
