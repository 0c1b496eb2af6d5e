"""Running jobs that are cancelled or taken away."""

import asyncio
import contextlib
import time
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import auntil, run
from treadle import Job, JobCancelled, JobQueue, Treadle, events
from treadle.worker.worker import Worker


async def until_status(handle: Any, status: str) -> None:
    while await handle.astatus() != status:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("hears", [True, False])
def test_a_running_job_is_cancelled_from_anywhere(app: Treadle, queue: JobQueue, hears: bool) -> None:
    stopped: list[str] = []

    @app.job
    async def on_the_loop() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            stopped.append("loop")

    @app.job
    def on_a_thread(job: Job) -> None:
        while not job.cancelled:
            time.sleep(0.01)
        with contextlib.suppress(Exception):
            job.progress(50)  # not an Exception
            stopped.append("not reached")
        stopped.append("not reached either")

    async def body(worker: Worker) -> None:
        handles = [await on_the_loop.aenqueue(), await on_a_thread.aenqueue()]
        for handle in handles:
            await until_status(handle, "running")
        began = time.monotonic()
        for handle in handles:
            queue.cancel(handle.id, "changed my mind")
            with pytest.raises(JobCancelled, match="changed my mind"):
                await handle.aresult(30)
        await auntil(lambda: len(worker.running) == 0)
        assert time.monotonic() - began < 20
        for handle in handles:
            assert await handle.astatus() == "cancelled"

    run(app, body, listen=hears)
    assert stopped == ["loop"]


def test_a_job_that_is_taken_away_is_stopped_and_writes_nothing(app: Treadle, connection: Connection[Any]) -> None:
    lost: list[events.LeaseWasLost] = []
    app.on(events.LeaseWasLost)(lost.append)

    @app.job(queue="mine")
    async def long() -> None:
        await asyncio.sleep(30)

    async def body(worker: Worker) -> None:
        handle = await long.aenqueue()
        await until_status(handle, "running")
        with connection.transaction():  # so that the worker cannot claim it in between
            mine = JobQueue(connection, worker_id="worker-1")
            mine.release(handle.id)
            (row,) = mine.claim(["long"], queues=["mine"])
        await auntil(lambda: lost)
        now = await handle.ajob()
        assert (now.lease, now.worker_id, now.status) == (row.lease, "worker-1", "claimed")

    run(app, body, queues=["default", "mine"], poll="30s", concurrency=1)
    assert lost[0].attempt == 1


def test_a_notification_alone_stops_no_job(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    """Any session can send one, and a genuine one may arrive after the job was retried."""
    go = asyncio.Event()

    @app.job
    async def running() -> str:
        await go.wait()
        return "done"

    async def body(worker: Worker) -> None:
        handles = [await running.aenqueue() for _ in range(2)]
        await auntil(lambda: len(worker.running) == 1 and sum(len(each.claims()) for each in worker.claimers) == 1)
        for handle in handles:
            connection.execute("select pg_notify(channel('work'), %s)", [f"cancelled {handle.id}"])
        connection.execute("select cancel_job(%s)", [(await running.aenqueue()).id])  # one that is true, to wait for
        await asyncio.sleep(0.3)
        await worker.cancellations.check()
        go.set()
        assert [await each.aresult(30) for each in handles] == ["done", "done"]

    run(app, body, concurrency=1, prefetch=1)
    assert connection.execute("select distinct lease, attempts from jobs where status = 'completed'").fetchall() == [
        (1, 1)
    ]
