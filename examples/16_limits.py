"""Limits: how many jobs run at once or start per period, for each tenant, on all workers together.

Install: pip install "treadle[embedded]"
"""

import asyncio
import time
from collections import Counter

from treadle import Limit, Rate, RateLimited, Treadle

app = Treadle()
running: Counter[str] = Counter()
most: Counter[str] = Counter()
told: list[str] = []


@app.job(limits=[Limit(10), Limit(3, per="tenant")], fair_by="tenant")
async def sync_account(tenant: str) -> None:
    running[tenant] += 1
    most[tenant] = max(most[tenant], running[tenant])
    await asyncio.sleep(0.02)
    running[tenant] -= 1


@app.job(limits=Rate(20, "1s", burst=5))
async def call_api(number: int) -> None:
    if number == 0 and not told:
        told.append("wait")
        raise RateLimited(retry_after="0.5s")


sync_account.enqueue_many([{"tenant": "acme"}] * 30)
sync_account.enqueue_many([{"tenant": "globex"}] * 6)
app.run_worker(drain=True, concurrency=20)
print("at most 3 at once of each:", sorted(most), all(number <= 3 for number in most.values()))


async def call_all() -> None:
    begin = time.monotonic()
    handles = await call_api.aenqueue_many([{"number": number} for number in range(15)])
    async with app.worker(concurrency=20):
        for handle in handles:
            await handle.aresult()
    print("15 calls at 20 per second, after a pause, took more than half a second:", time.monotonic() - begin > 0.5)


asyncio.run(call_all())

print("limits:", ", ".join(sorted({status.name for status in app.limits()})))
app.close()
