"""The application of chaos/truth.py: twelve job types in six queues."""

import asyncio
import random

from treadle import Retries, Treadle

TYPES = [f"type_{nth}" for nth in range(12)]
QUEUES = {name: f"queue_{nth % 6}" for nth, name in enumerate(TYPES)}

app = Treadle()


class RequestedFailure(Exception):
    """Some attempts fail."""


def declare(name: str) -> None:
    @app.job(name=name, queue=QUEUES[name], retry=Retries(1))
    async def work() -> None:
        await asyncio.sleep(random.uniform(0.005, 0.05))
        if random.random() < 0.02:
            raise RequestedFailure


for each in TYPES:
    declare(each)
