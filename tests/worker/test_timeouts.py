"""Handlers that take too long."""

import asyncio
import threading
import time

import pytest

from tests.support.workers import run
from treadle import (
    Job,
    JobFailed,
    JobInterrupted,
    Treadle,
)
from treadle.worker import Worker

pytestmark = pytest.mark.own_database


def test_a_timeout_interrupts_each_place(app: Treadle) -> None:
    seen = []

    @app.job(timeout=0.1, max_attempts=1)
    async def on_the_loop() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("loop")
            raise

    @app.job(timeout=0.1, max_attempts=1)
    def on_a_thread(job: Job) -> None:
        try:
            while True:
                job.progress(5)
                time.sleep(0.01)
        except JobInterrupted as interrupted:
            assert job.cancelled
            seen.append(interrupted.reason)
            raise

    async def body(worker: Worker) -> None:
        for handle in (await on_the_loop.aenqueue(), await on_a_thread.aenqueue()):
            with pytest.raises(JobFailed, match=r"timed out after 0\.1 seconds"):
                await handle.aresult(30)

    run(app, body)
    assert sorted(seen) == ["loop", "timeout"]


def test_a_thread_past_its_deadline_is_given_up(app: Treadle) -> None:
    release = threading.Event()

    @app.job(timeout=0.1, deadline=0.2, max_attempts=1)
    def deaf() -> None:
        release.wait(30)

    @app.job
    async def fine() -> str:
        return "fine"

    async def body(worker: Worker) -> None:
        handle = await deaf.aenqueue()
        with pytest.raises(JobFailed, match=r"still ran at its deadline, after 0\.2 seconds"):
            await handle.aresult(30)
        assert await (await fine.aenqueue()).aresult(30) == "fine"
        release.set()

    run(app, body)
