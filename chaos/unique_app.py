"""The application of chaos/unique.py: one job type per mode, so that each has unique keys of its own."""

import asyncio
import random

from chaos.ledger import Ledger
from treadle import Backoff, Debounce, Job, Once, Retries, Throttle, Treadle

app = Treadle()
ledger = Ledger.of_environment()

PERIOD = 2.0
PER_PERIOD = 2
MODES: dict[str, Once | Debounce | Throttle] = {
    "unfinished": Once("text"),
    "pending": Once("text", while_pending=True),
    "replace": Once("text", while_pending=True, on_conflict="replace"),
    "debounce": Debounce(0.2, "text", at_most=1.0),
    "throttle": Throttle(PER_PERIOD, PERIOD, "text"),
}


def declare(mode: str) -> None:
    @app.job(name=mode, retry=Retries(49, backoff=Backoff(first="50ms", limit="200ms")))
    async def work(job: Job, text: str, call: str) -> None:
        ledger.note("start", mode=mode, text=text, call=call, id=str(job.id), lease=job.fence)
        await asyncio.sleep(random.choice([0, 0, 0.02, 0.1]))
        if random.random() < 0.1:
            raise RuntimeError("one attempt in ten fails")
        ledger.note("end", mode=mode, text=text, call=call, id=str(job.id), lease=job.fence)


for each in MODES:
    declare(each)
