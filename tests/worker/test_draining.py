"""When a draining worker is done. It has two claimers if some of its job types run in child processes."""

import asyncio
from copy import copy
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import WaitingJob, auntil, auntil_waiting, count, run
from treadle import Backoff, Job, JobQueue, Retries, Status, Treadle
from treadle.db.query import Query
from treadle.worker import maintenance
from treadle.worker.draining import Draining
from treadle.worker.worker import Worker


def apart() -> None:
    """Has a claimer of its own, which finds nothing."""


def test_a_draining_worker_inside_a_program_runs_what_is_left(app: Treadle) -> None:
    ran: list[int] = []

    @app.job
    async def work(number: int) -> None:
        ran.append(number)
        if number < 3:
            await work.aenqueue(number + 1)

    async def scene() -> None:
        await work.aenqueue(1)
        async with app.worker(drain=True):
            pass
        assert ran == [1, 2, 3]

        await work.using(delay="1h").aenqueue(3)
        worker = app.worker(drain=True)
        async with worker:
            await worker.drained()  # twice is harmless

    asyncio.run(scene())


def test_a_worker_is_not_drained_while_a_claimer_claims(app: Treadle, queue: JobQueue) -> None:
    """The first claimer found nothing and is woken for a job; the second finds nothing while that job is claimed."""

    @app.job
    async def late() -> None: ...

    app.job(process=True)(apart)

    async def scene() -> None:
        worker = app.worker(drain=True)
        await worker.start()  # the claimers have not taken a step yet
        first, second = worker.claimers
        enqueued, claims, rested = asyncio.Event(), asyncio.Event(), asyncio.Event()
        run = worker.connections.claims.run

        class First:
            async def run(self, query: Query[Any]) -> Any:
                if enqueued.is_set() and "claim_work" in query.text:
                    claims.set()
                    await rested.wait()
                return await run(query)

        class Second:
            async def run(self, query: Query[Any]) -> Any:
                if "next_due(" in query.text and not enqueued.is_set():
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

        for each, connection in ((first, First()), (second, Second())):
            each._source = copy(each._source)
            each._source.connection = connection  # type: ignore[assignment]
        await asyncio.wait_for(worker.drained(), 20)
        await worker.stop()

    asyncio.run(scene())
    assert [job.status for job in queue.list().jobs] == [Status.COMPLETED]


def test_a_draining_worker_ends_only_when_it_was_not_busy_before_it_looked() -> None:
    """A job that finished since may have unblocked another."""

    async def body() -> None:
        busy, woken = True, []

        def claimer() -> Any:
            return SimpleNamespace(idle=False, wake=lambda: woken.append(True))

        claimers = [claimer(), claimer()]
        draining = Draining(claimers, lambda: busy)
        draining.found_nothing(claimers[0], quiet=True)
        assert not claimers[0].idle, "a job runs"
        busy = False
        draining.found_nothing(claimers[0], quiet=False)
        assert woken == [True], "it has to look again"
        draining.found_nothing(claimers[0], quiet=True)
        assert not draining.done.is_set(), "the other claimer has to find nothing as well"
        draining.found_nothing(claimers[1], quiet=True)
        assert draining.done.is_set()

    asyncio.run(body())


def test_a_draining_worker_looks_again_when_its_last_job_has_finished(app: Treadle, waiting_job: WaitingJob) -> None:
    """It found nothing while the job ran, and is not done: with a poll of a minute, the outcome has to wake it."""
    wait_for_event, began, go = waiting_job

    async def body(worker: Worker) -> None:
        await auntil(lambda: began)
        await auntil_waiting(worker)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(worker.drained(), 0.2)
        go.set()
        await asyncio.wait_for(worker.drained(), 30)

    wait_for_event.enqueue(n=1)
    run(app, body, drain=True, poll="60s", grace=0)


def test_a_draining_worker_is_not_done_if_it_has_claimed_since(
    app: Treadle, waiting_job: WaitingJob, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was done, counts what finished, and claims a job meanwhile. Another worker that looks then finds nothing and
    ends, so the jobs behind that one are left to this worker."""
    wait_for_event, began, go = waiting_job
    count_finished = maintenance.count
    calls = 0

    async def count_slowly(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            for n in range(3):
                await wait_for_event.using(key="one").aenqueue(n=n)
            await auntil(lambda: began)
            asyncio.get_running_loop().call_later(0.05, go.set)
        await count_finished(*arguments)

    monkeypatch.setattr(maintenance, "count", count_slowly)
    app.run_worker(drain=True)
    assert (began, count(connection, "status = 'completed'")) == ([0, 1, 2], 3)


def test_a_draining_worker_does_not_wait_for_the_poll(app: Treadle, waiting_job: WaitingJob) -> None:
    wait_for_event, began, go = waiting_job

    async def body(worker: Worker) -> None:
        await auntil(lambda: began)
        await auntil_waiting(worker)
        go.set()
        await asyncio.wait_for(worker.drained(), 30)

    wait_for_event.enqueue(n=1)
    run(app, body, drain=True, listen=False, poll="60s", grace=0)


def test_drain_runs_what_is_there_and_ends(app: Treadle, connection: Connection[Any]) -> None:
    @app.job(retry=Retries(1, backoff=Backoff(first=0, limit=0)))
    async def shaky(job: Job, n: int) -> None:
        if job.attempt == 1 and n % 10 == 0:
            raise ValueError("first time")

    shaky.enqueue_many({"n": n} for n in range(200))
    app.run_worker(drain=True, concurrency=20)
    assert count(connection, "status = 'completed'") == 200
    app.close()
