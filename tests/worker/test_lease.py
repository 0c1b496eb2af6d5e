"""A worker whose lease is not renewed: it stops its handlers, and goes on when the lease is renewed."""

import asyncio
from typing import Any

import psutil
from psycopg import Connection

from tests.support.workers import WaitingJob, auntil, one, run
from treadle import Treadle, events
from treadle.db.queries import worker as worker_queries
from treadle.words.clock import now
from treadle.worker.job_slots import JobSlots
from treadle.worker.lease import LeaseWatch
from treadle.worker.worker import Worker


def test_a_worker_whose_lease_is_not_renewed_gives_all_jobs_back(
    app: Treadle, connection: Connection[Any], waiting_job: WaitingJob
) -> None:
    fenced: list[events.Event] = []
    app.on(events.WorkerFenced)(fenced.append)
    wait_for_event, began, _ = waiting_job

    async def body(worker: Worker) -> None:
        await wait_for_event.aenqueue_many({"n": n} for n in range(3))
        await auntil(lambda: len(worker.claimers[0].ready) == 2)
        keeper = psutil.Process(worker.keeper_pid)
        keeper.suspend()
        try:
            await auntil(lambda: fenced)
            await auntil(lambda: len(worker.running) == 0)
            await auntil(
                lambda: one(connection, "select count(*) from jobs where status = 'pending' and attempts = 0") == 3
            )
            await asyncio.sleep(0.2)  # an intake that may not start looks again every 0.05
            assert one(connection, "select max(lease + crashes) from jobs") == 1, "nothing is claimed behind the fence"
            assert began == [0]
        finally:
            keeper.resume()

    run(app, body, lease="3s", concurrency=1, prefetch=2, grace=0, keeper_process=True)


def test_a_worker_goes_on_when_its_lease_is_renewed(app: Treadle) -> None:
    fenced: list[events.Event] = []
    app.on(events.WorkerFenced)(fenced.append)

    @app.job
    async def hello(n: int) -> int:
        return n

    async def body(worker: Worker) -> None:
        assert await (await hello.aenqueue(n=0)).aresult(30) == 0
        keeper = psutil.Process(worker.keeper_pid)
        keeper.suspend()
        try:
            await auntil(lambda: fenced)
            # A claim that was under way, or found later: not begun, and given back.
            handles = [await hello.aenqueue(n=n) for n in range(5)]
            query = worker_queries.claim(worker.worker_id, ["hello"], 2, None)
            claims = (await worker.connections.claims.run(query)).claims
            assert len(claims) == 2
            worker.claimers[0].take(claims)
            assert len(worker.running) == 0
        finally:
            keeper.resume()
        assert [await handle.aresult(30) for handle in handles] == list(range(5))
        assert {(await handle.ajob()).attempts for handle in handles} == {1}

    run(app, body, lease="2s", concurrency=3, keeper_process=True)


def test_the_handlers_are_stopped_once_until_the_lease_is_renewed() -> None:
    fenced: list[bool] = []

    async def body() -> None:
        slots = JobSlots.create(1)
        lease = LeaseWatch(slots, fence_after=8, fence=lambda: fenced.append(True))
        for age, stopped, times in ((7, False, 0), (9, True, 1), (10, True, 1), (1, False, 1), (9, True, 2)):
            slots.renewed_at = now() - age
            await lease.check()
            assert (lease.fenced, len(fenced)) == (stopped, times)
        # Asleep, it has no lease to lose, and stops without a warning.
        slots.asleep = True
        await lease.check()
        assert not lease.fenced
        slots.close()

    asyncio.run(body())
