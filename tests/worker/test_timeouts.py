"""Handlers that take too long: timeouts, which interrupt them, and deadlines, at which they are given up."""

import asyncio
import threading
import time
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.support.workers import auntil, run
from treadle import (
    Backoff,
    InvalidArgument,
    Job,
    JobFailed,
    JobInterrupted,
    Once,
    Retries,
    Treadle,
    chain,
    events,
)
from treadle.worker import running_jobs
from treadle.worker.worker import Worker


def test_a_timeout_interrupts_each_place(app: Treadle) -> None:
    seen = []

    @app.job(timeout=0.1, retry=Retries(0))
    async def on_the_loop() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("loop")
            raise

    @app.job(timeout=0.1, retry=Retries(0))
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


def test_a_call_has_its_own_timeout(app: Treadle, connection: Connection[Any]) -> None:
    over = threading.Event()

    @app.job(retry=Retries(0))
    async def endless() -> None:
        await asyncio.sleep(60)

    @app.job(retry=Retries(0), timeout="1h")
    def deaf() -> None:
        over.wait(30)

    @app.job(retry=Retries(0), timeout=0.001)
    async def patient() -> str:
        await asyncio.sleep(0.05)
        return "done"

    quick = endless.using(timeout=0.1)

    async def body(worker: Worker) -> None:
        soft = [await quick.aenqueue(), *await quick.aenqueue_many([{}])]
        soft.append(await quick.using(unique=Once()).aenqueue())
        soft.append(await chain(quick.call()).aenqueue())
        hard = await deaf.using(timeout=(None, 0.1)).aenqueue()
        never = await patient.using(timeout=None).aenqueue()
        for handle in soft:
            with pytest.raises(JobFailed, match=r"timed out after 0\.1 seconds"):
                await handle.aresult(30)
        with pytest.raises(JobFailed, match=r"was still running at its deadline, after 0\.1 seconds"):
            await hard.aresult(30)
        over.set()
        assert await never.aresult(30) == "done"

    run(app, body)
    limits = connection.execute("select job_type, timeout from jobs where job_type <> 'workflow' order by 1, id")
    assert limits.fetchall() == [("deaf", [None, 0.1]), *[("endless", [0.1, 10.1])] * 4, ("patient", [None, None])]
    with pytest.raises(InvalidArgument, match="must not be shorter than the first"):
        endless.using(timeout=("30s", "25s")).enqueue()
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="the second not shorter than the first"):
        connection.execute("select enqueue_with_options('a', '{{}}', '{\"timeout\": [3, 1]}')")


def test_a_thread_past_its_deadline_is_given_up(app: Treadle) -> None:
    release = threading.Event()

    @app.job(timeout=(0.1, 0.2), retry=Retries(0))
    def deaf() -> None:
        release.wait(30)

    @app.job
    async def fine() -> str:
        return "fine"

    async def body(worker: Worker) -> None:
        handle = await deaf.aenqueue()
        with pytest.raises(JobFailed, match=r"was still running at its deadline, after 0\.2 seconds"):
            await handle.aresult(30)
        assert await (await fine.aenqueue()).aresult(30) == "fine"
        release.set()

    run(app, body)


def test_a_thread_past_its_deadline_has_no_second_outcome(app: Treadle) -> None:
    over = threading.Event()
    lost: list[events.Event] = []
    app.on(events.LeaseWasLost)(lost.append)

    @app.job(timeout=(0.05, 0.1), retry=Retries(0))
    def deaf() -> None:
        over.wait(30)

    async def body(worker: Worker) -> None:
        with pytest.raises(JobFailed, match="was still running at its deadline"):
            await (await deaf.aenqueue()).aresult(30)
        over.set()
        await auntil(lambda: len(worker.running) == 0)
        await worker.completer.flushed()

    run(app, body)
    assert lost == []


def test_a_deadline_without_a_timeout(app: Treadle) -> None:
    over = threading.Event()

    @app.job(timeout=(None, 0.2), retry=Retries(0))
    async def sleepy() -> None:
        await asyncio.sleep(30)

    @app.job(timeout=(None, 0.2), retry=Retries(0))
    def deaf() -> None:
        over.wait(30)

    async def body(worker: Worker) -> None:
        for job in (sleepy, deaf):
            with pytest.raises(JobFailed, match=r"(timed out|was still running at its deadline,) after 0\.2 seconds"):
                await (await job.aenqueue()).aresult(30)
        over.set()
        await auntil(lambda: len(worker.running) == 0)

    run(app, body, concurrency=2)


def test_a_handler_that_stops_at_its_deadline_is_not_given_up(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither at once nor later, when another job may use its slot."""
    monkeypatch.setattr(running_jobs, "INTERRUPTED_SECONDS", 1.2)
    lost: list[events.Event] = []
    app.on(events.LeaseWasLost)(lost.append)

    @app.job(timeout=(None, 0.2), retry=Retries(0))
    async def sleepy() -> None:
        await asyncio.sleep(60)

    @app.job(timeout=(None, 0.2), retry=Retries(0))
    def tidy(job: Job) -> str:
        while not job.cancelled:
            time.sleep(0.01)
        time.sleep(0.1)
        return "tidy"

    async def body(worker: Worker) -> None:
        with pytest.raises(JobFailed, match=r"timed out after 0\.2 seconds"):
            await (await sleepy.aenqueue()).aresult(30)
        assert await (await tidy.aenqueue()).aresult(30) == "tidy"
        await asyncio.sleep(running_jobs.INTERRUPTED_SECONDS + 0.2)
        assert not worker.running.overdue.is_set()
        await worker.completer.flushed()

    run(app, body)
    assert lost == []


def test_a_thread_that_was_given_up_is_not_waited_for(app: Treadle) -> None:
    """A worker that stops waits for the other jobs only."""
    over, began, done = threading.Event(), threading.Event(), threading.Event()

    @app.job(timeout=(0.05, 0.1), retry=Retries(0))
    def deaf() -> None:
        over.wait(60)

    @app.job
    async def neighbour() -> None:
        began.set()
        await asyncio.sleep(0.5)
        done.set()

    async def body(worker: Worker) -> None:
        with pytest.raises(JobFailed, match="was still running at its deadline"):
            await (await deaf.aenqueue()).aresult(30)
        await neighbour.aenqueue()
        await auntil(began.is_set)
        asked = time.monotonic()
        await worker.running.empty(10)
        patience = time.monotonic() - asked
        over.set()
        await auntil(lambda: len(worker.running) == 0)
        assert done.is_set()
        assert patience < 5

    run(app, body)


def test_a_job_does_not_run_again_beside_a_thread_of_it_that_still_runs(app: Treadle) -> None:
    at_once, most, ended = 0, 0, threading.Event()
    lock = threading.Lock()

    @app.job(timeout=(0.1, 0.2), retry=Retries(4, backoff=Backoff(first=0)))
    def deaf(job: Job) -> int:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        try:
            if job.fence == 1:
                ended.wait(0.8)
        finally:
            with lock:
                at_once -= 1
        return job.fence

    async def body(worker: Worker) -> None:
        handle = await deaf.aenqueue()
        assert await handle.aresult(30) > 1
        await auntil(lambda: len(worker.running) == 0)
        assert worker.claimers[0].running == 0
        assert worker.slots.entries() == []

    run(app, body, concurrency=3)
    assert most == 1
