"""How an attempt may end, and which are tried again."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import auntil, run
from treadle import Backoff, Cancel, Job, JobCancelled, JobFailed, JobQueue, Retries, Retry, Snooze, Treadle
from treadle.worker.worker import Worker

NOW = Backoff(first=0, limit=0)


def test_a_failed_job_is_tried_again_and_every_error_is_kept(app: Treadle) -> None:
    @app.job(retry=Retries(2, backoff=NOW))
    async def fragile(job: Job) -> str:
        if job.attempt < 3:
            raise ValueError(f"not at attempt {job.attempt}")
        return "at last"

    async def body(worker: Worker) -> None:
        handle = await fragile.aenqueue()
        assert await handle.aresult(30) == "at last"
        row = await handle.ajob()
        assert (row.attempts, row.crashes, row.last_error) == (3, 0, "ValueError: not at attempt 2")
        one, two = await handle.aerrors()
        assert (one.attempt, one.error) == (1, "ValueError: not at attempt 1")
        assert (two.attempt, two.worker_id) == (2, worker.worker_id)
        assert one.failed_at < two.failed_at
        assert two.traceback is not None
        assert 'raise ValueError(f"not at attempt {job.attempt}")' in two.traceback
        assert "executor.py" not in two.traceback

    run(app, body)


def test_the_default_backoff_waits(app: Treadle, connection: Connection[Any]) -> None:
    looked = threading.Event()

    @app.job
    def broken(job: Job) -> None:
        if job.attempt == 1:
            raise OSError("disk full")
        looked.wait(60)

    async def body(worker: Worker) -> None:
        handle = await broken.aenqueue()
        await auntil(handle.aerrors)
        (error,) = await handle.aerrors()
        wait = (await handle.ajob()).run_at - error.failed_at
        looked.set()
        assert timedelta(seconds=0.45) < wait < timedelta(seconds=1.05)

    run(app, body)


def test_which_exceptions_are_tried_again(app: Treadle) -> None:
    @app.job(retry=Retries(on=OSError, backoff=NOW))
    def only_some(kind: str) -> None:
        raise {"OSError": OSError, "ValueError": ValueError}[kind]()

    @app.job(retry=Retries(give_up_on=(ValueError,), backoff=NOW))
    async def all_but_some(kind: str) -> None:
        raise {"OSError": OSError, "ValueError": ValueError}[kind]()

    async def body(worker: Worker) -> None:
        for job in (only_some, all_but_some):
            for kind, attempts in (("OSError", 3), ("ValueError", 1)):
                handle = await job.aenqueue(kind=kind)
                with pytest.raises(JobFailed, match=kind):
                    await handle.aresult(30)
                assert (await handle.ajob()).attempts == attempts
                assert len(await handle.aerrors()) == attempts

    run(app, body)


def test_a_handler_says_how_its_job_goes_on(app: Treadle) -> None:
    seen: list[tuple[str, int]] = []

    @app.job(retry=Retries(1))
    async def again(job: Job) -> None:
        seen.append(("again", job.attempt))
        raise Retry("the shop is closed", after=0)

    @app.job(retry=Retries(0))
    def snoozes(job: Job) -> int:
        seen.append(("snoozes", job.attempt))
        if job.fence < 3:
            raise Snooze(0)
        return job.fence

    @app.job
    async def unwanted() -> None:
        raise Cancel("the order was withdrawn")

    async def body(worker: Worker) -> None:
        retried, snoozed, cancelled = await again.aenqueue(), await snoozes.aenqueue(), await unwanted.aenqueue()
        with pytest.raises(JobFailed, match="failed: the shop is closed"):
            await retried.aresult(30)
        assert await snoozed.aresult(30) == 3
        with pytest.raises(JobCancelled, match="the order was withdrawn"):
            await cancelled.aresult(30)
        assert sorted(seen) == [("again", 1), ("again", 2), ("snoozes", 1), ("snoozes", 1), ("snoozes", 1)]
        assert (await snoozed.ajob()).attempts == 1
        assert await snoozed.aerrors() == []

    run(app, body)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        StopIteration(),
        asyncio.CancelledError(),
        Unspeakable(),
        ExceptionGroup("several", [ValueError("a\x00b"), OSError("\ud800")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_is_raised_is_a_failed_attempt_and_the_worker_goes_on(app: Treadle, error: BaseException) -> None:
    @app.job(retry=Retries(0))
    async def on_the_loop() -> None:
        raise error

    @app.job(retry=Retries(0))
    def on_a_thread() -> None:
        raise error

    @app.job
    async def fine() -> str:
        return "fine"

    async def body(worker: Worker) -> None:
        for handle in (await on_the_loop.aenqueue(), await on_a_thread.aenqueue()):
            with pytest.raises(JobFailed):
                await handle.aresult(30)
            (kept,) = await handle.aerrors()
            assert kept.traceback
        assert await (await fine.aenqueue()).aresult(30) == "fine"

    run(app, body)


@pytest.mark.parametrize(
    "result", [float("nan"), "a\x00b", object(), "x" * 300_000], ids=["nan", "nul", "object", "large"]
)
def test_a_result_that_cannot_be_stored_fails_the_job_at_once(app: Treadle, result: object) -> None:
    @app.job(retry=Retries(backoff=NOW))
    async def returns() -> Any:
        return result

    async def body(worker: Worker) -> None:
        handle = await returns.aenqueue()
        with pytest.raises(JobFailed, match="result"):
            await handle.aresult(30)
        assert (await handle.ajob()).attempts == 1

    run(app, body)


def test_a_payload_that_does_not_fit_fails_alone(app: Treadle, queue: JobQueue) -> None:
    @app.job(retry=Retries(0))
    async def takes(n: int) -> int:
        return n

    async def body(worker: Worker) -> None:
        bad = [queue.enqueue("takes", data, retry=Retries(0)) for data in ({"n": "x"}, {}, [1], {"n": 1, "m": 2}, None)]
        good = await takes.aenqueue(n=4)
        assert await good.aresult(30) == 4
        for job_id in bad:
            with pytest.raises(JobFailed, match=r"InvalidPayload: .*takes"):
                await app.handle(job_id).aresult(30)

    run(app, body)
