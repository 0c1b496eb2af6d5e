"""The jobs of the shop, for the web application and for `treadle worker`."""

import asyncio

from sqlalchemy import update

from shop.database import Order, sessions
from treadle import Job, Retries, Treadle

app = Treadle()


@app.job(retry=Retries(2))
async def pack(order: int, boxes: int, job: Job) -> str:
    for box in job.track(range(1, boxes + 1), stage="packing"):
        async with sessions.begin() as session:
            await session.execute(update(Order).where(Order.id == order).values(packed=box))
        job.event("packed", box=box)
        await asyncio.sleep(0.05)
    return f"order {order} is on its way"


@app.job(retry=Retries(0))
async def take_stock(job: Job) -> int:
    """Takes long, and goes on where it was interrupted."""
    first = job.checkpoint or 0
    if first == 0:
        await job.asave(1)
        job.event("waiting")
        await asyncio.sleep(3600)
    return first
