"""When a draining worker is done. It has two intakes if some of its job types run in child processes."""

import asyncio
from typing import Any

import pytest

from treadle import JobQueue, Treadle
from treadle.db.query import Query
from treadle.words.status import Status

pytestmark = pytest.mark.own_database


def apart() -> None:
    """Has an intake of its own, which finds nothing."""


def test_a_worker_is_not_drained_while_an_intake_claims(app: Treadle, queue: JobQueue) -> None:
    """The first intake found nothing and is woken for a job; the second finds nothing while that job is claimed."""

    @app.job
    async def late() -> None: ...

    app.job(process=True)(apart)

    async def scene() -> None:
        worker = app.worker(drain=True)
        await worker.start()  # the intakes have not taken a step yet
        first, second = worker.claimers
        enqueued, claims, rested = asyncio.Event(), asyncio.Event(), asyncio.Event()
        run = worker.connections.claims.run

        class First:
            async def run(self, query: Query[Any]) -> Any:
                if enqueued.is_set() and "claim_jobs" in query.text:
                    claims.set()
                    await rested.wait()
                return await run(query)

        class Second:
            async def run(self, query: Query[Any]) -> Any:
                if "rest(" in query.text and not enqueued.is_set():
                    while not first.idle:
                        await asyncio.sleep(0)
                    enqueued.set()  # before it is: the first may be woken by the notification
                    await late.aenqueue()
                    first.wake()
                    await claims.wait()
                    answer = await run(query)
                    asyncio.get_running_loop().call_later(0.05, rested.set)
                    return answer
                return await run(query)

        first._line, second._line = First(), Second()  # type: ignore[assignment]
        await asyncio.wait_for(worker.drained(), 20)
        await worker.stop()

    asyncio.run(scene())
    assert [job.status for job in queue.list().jobs] == [Status.COMPLETED]
