"""The application of chaos/unique.py: one job type per mode, so that each has unique keys of its own."""

import asyncio
import random

from chaos.ledger import Ledger
from treadle import Backoff, Job, Treadle

app = Treadle()
ledger = Ledger.of_environment()

PERIOD = 2.0
PER_PERIOD = 2
MODES = {
    "unfinished": {},
    "pending": {"while_": "pending"},
    "replace": {"while_": "pending", "on_conflict": "replace"},
    "debounce": {"debounce": 0.2, "debounce_limit": 1.0},
    "throttle": {"throttle": f"{PER_PERIOD} per {PERIOD}s"},
}


def declare(mode: str) -> None:
    @app.job(name=mode, backoff=Backoff(first="50ms", limit="200ms"), max_attempts=50)
    async def work(job: Job, text: str, call: str) -> None:
        ledger.note("start", mode=mode, text=text, call=call, id=str(job.id), lease=job.fence)
        await asyncio.sleep(random.choice([0, 0, 0.02, 0.1]))
        if random.random() < 0.1:
            raise RuntimeError("one attempt in ten fails")
        ledger.note("end", mode=mode, text=text, call=call, id=str(job.id), lease=job.fence)


for each in MODES:
    declare(each)
