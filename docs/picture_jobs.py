"""The jobs in the screenshots of the dashboard; see make_dashboard_pictures.py."""

import asyncio
import logging
import random
import time

from treadle import Backoff, Job, Priority, Retries, Treadle

app = Treadle(schema="treadle_pictures")
log = logging.getLogger("shop.orders")


@app.job(retry=Retries(backoff=Backoff(first="1s")))
def import_orders(job: Job, file: str, shop_token: str, rows: int = 2400) -> int:
    """Loses its connection once, and continues at its checkpoint."""
    columns = job.step("read the header", lambda: 14)
    done = job.checkpoint or 0
    log.info("importing %s from row %s on, %s columns", file, done, columns)
    for row in job.track(range(done, rows), rows, stage="importing", done=done):
        time.sleep(0.01)
        if row % 300 == 299:
            job.save(row + 1)
            job.event("saved", rows=row + 1)
        if row % 500 == 250:
            log.warning("row %s has no e-mail address", row)
        if row == 900 and job.attempt == 1:
            raise ConnectionError("shop.example.org closed the connection")
    return rows


@app.job(priority=Priority.EXPLICIT)
async def thumbnail(job: Job, picture: str) -> None:
    for percent, stage in ((15, "loading"), (50, "resizing"), (85, "saving")):
        job.progress(percent, stage=stage)
        await asyncio.sleep(random.uniform(0.2, 1.0))  # noqa: S311


@app.job
async def send_mail(to: str) -> None:
    await asyncio.sleep(0.05)
    if random.random() < 0.02:  # noqa: S311
        raise TimeoutError("smtp.example.org did not answer")


@app.job
async def render_film(job: Job, film: str, frames: int = 4000) -> None:
    for _ in job.track(range(frames), stage="encoding"):
        await asyncio.sleep(0.02)


@app.job(priority=Priority.BACKFILL)
async def reindex(job: Job, pages: int = 40_000) -> None:
    for _ in job.track(range(pages), stage="reading pages"):
        await asyncio.sleep(0.004)
