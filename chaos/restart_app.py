"""The application of chaos/restarts.py: long jobs whose worker is killed, and short ones as load."""

import asyncio

from chaos.ledger import Ledger
from treadle import Job, Treadle

app = Treadle()
ledger = Ledger.of_environment()


@app.job
async def long(job: Job, seconds: float) -> None:
    ledger.note("start", id=str(job.id), lease=job.fence)
    await asyncio.sleep(seconds)


@app.job
async def short(seconds: float) -> None:
    await asyncio.sleep(seconds)
