"""Running jobs that are cancelled or taken away."""

import asyncio
import contextlib
import time
from typing import Any

import pytest

from tests.support.workers import auntil, run
from treadle import Job, JobCancelled, JobQueue, Treadle, events
from treadle.worker import Worker


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


def test_a_job_that_is_taken_away_is_stopped_and_writes_nothing(app: Treadle, queue: JobQueue) -> None:
    lost: list[events.LeaseWasLost] = []
    app.on(events.LeaseWasLost)(lost.append)

    @app.job(queue="mine")
    async def long() -> None:
        await asyncio.sleep(30)

    async def body(worker: Worker) -> None:
        handle = await long.aenqueue()
        await until_status(handle, "running")
        queue.release(handle.id)
        (row,) = queue.claim(["long"], queues=["mine"])
        await auntil(lambda: lost)
        now = await handle.ajob()
        assert (now.lease, now.worker_id, now.status) == (row.lease, "worker-1", "claimed")

    run(app, body, queues=["default", "mine"], poll="30s", concurrency=1)
    assert lost[0].attempt == 1
