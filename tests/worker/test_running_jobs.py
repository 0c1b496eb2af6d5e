"""How jobs are started, interrupted and reported."""

import asyncio
import sys
from contextvars import ContextVar
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import auntil, one, run
from treadle import Job, Retries, Treadle
from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import DatabaseUnavailable
from treadle.words.outcome import Interrupt
from treadle.worker.worker import Worker


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the first step is taken as the job is started, from 3.12 on")
@pytest.mark.parametrize("place", ["loop", "thread"])
def test_a_job_that_is_interrupted_before_its_first_step_does_not_run(
    app: Treadle, connection: Connection[Any], place: str
) -> None:
    began: list[str] = []

    @app.job
    async def on_the_loop() -> None:
        began.append("loop")

    @app.job
    def on_a_thread() -> None:
        began.append("thread")

    async def body(worker: Worker) -> None:
        job = on_the_loop if place == "loop" else on_a_thread
        await job.aenqueue()
        claimed = await worker.connections.claims.run(worker_queries.claim(worker.worker_id, [job.name], 1, None))
        worker.claimers[0].take(claimed.claims)
        worker.running.interrupt_all(Interrupt.SHUTDOWN)
        await auntil(lambda: len(worker.running) == 0)
        await auntil(lambda: one(connection, "select status from jobs") == "pending")
        assert one(connection, "select attempts from jobs") == 0

    run(app, body, queues=["another"])
    assert began == []


def test_a_handler_that_cleans_up_is_not_interrupted_again(app: Treadle) -> None:
    begun, go = asyncio.Event(), asyncio.Event()
    tidied: list[bool] = []

    @app.job
    async def tidy() -> None:
        try:
            begun.set()
            await asyncio.sleep(30)
        finally:
            begun.clear()
            await go.wait()
            tidied.append(True)

    async def body(worker: Worker) -> None:
        handle = await tidy.aenqueue()
        await begun.wait()
        (claim,) = worker.running.claims()
        assert claim.id == handle.id
        worker.running.interrupt(claim, Interrupt.CANCELLED)
        await auntil(lambda: not begun.is_set())
        worker.running.interrupt(claim, Interrupt.LEASE_LOST)
        await asyncio.sleep(0)  # a second cancellation would arrive in this step of the loop
        go.set()
        await auntil(lambda: len(worker.running) == 0)

    run(app, body)
    assert tidied == [True]


def test_a_crashed_job_that_no_child_process_can_import_runs_in_the_worker(
    app: Treadle, connection: Connection[Any]
) -> None:
    @app.job(retry=Retries(0))
    async def local() -> int:
        return 3

    handle = local.enqueue()
    connection.execute("update jobs set crashes = 1")

    async def body(worker: Worker) -> None:
        assert await handle.aresult(30) == 3

    run(app, body)


def test_progress_that_could_not_be_reported_is_reported_again(app: Treadle, connection: Connection[Any]) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def tells(job: Job) -> None:
        job.progress(40, "halfway")
        begun.set()
        await go.wait()

    async def body(worker: Worker) -> None:
        async def refused() -> bool:
            """False if the worker's own report has just taken the progress."""
            try:
                await worker.running.report(worker.connections.outcomes)
            except DatabaseUnavailable:
                return True
            return False

        connection.execute("alter function report_jobs rename to start_jobs_away")
        try:
            handle = await tells.aenqueue()
            await begun.wait()
            await auntil(refused)
        finally:
            connection.execute("alter function start_jobs_away rename to report_jobs")
        await auntil(lambda: one(connection, "select progress from jobs") == 40)
        assert (await handle.aprogress()).stage == "halfway"
        go.set()

    run(app, body)


def test_a_full_worker_starts_each_job_in_a_context_of_its_own(app: Treadle) -> None:
    tenant: ContextVar[int | None] = ContextVar("tenant", default=None)

    @app.job
    async def remembers(n: int) -> int | None:
        before = tenant.get()
        tenant.set(n)
        await asyncio.sleep(0)
        return before

    async def body(worker: Worker) -> None:
        handles = await remembers.aenqueue_many({"n": n} for n in range(20))
        assert [await handle.aresult(30) for handle in handles] == [None] * 20

    run(app, body, concurrency=1)
