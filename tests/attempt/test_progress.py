"""Progress, from the handler to its readers: coalesced, in order, never lost, fenced."""

import asyncio
import contextlib
import time
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import SOON, auntil, one, run, until
from treadle import InvalidArgument, Job, JobFailed, JobQueue, Retries, Status, Treadle
from treadle.worker.worker import Worker


def test_progress_stage_and_pace_can_be_watched(app: Treadle) -> None:
    go = asyncio.Event()

    @app.job
    async def load(job: Job) -> None:
        for n in job.track(range(10), stage="loading"):
            if n == 4:
                await go.wait()

    async def body(_: Worker) -> None:
        handle = await load.aenqueue()

        async def seen() -> bool:
            return (await handle.aprogress()).percent == 40

        await auntil(seen)
        progress = await handle.aprogress()
        assert (progress.stage, progress.done, progress.total) == ("loading", 4, 10)
        assert progress.rate is not None
        go.set()
        await handle.aresult(30)
        progress = await handle.aprogress()
        assert (progress.percent, progress.stage, progress.done) == (100, "loading", 10)

    run(app, body)


@pytest.mark.parametrize("ending", ["fails", "completes"])
def test_the_last_value_before_the_end_is_not_lost(app: Treadle, ending: str) -> None:
    @app.job(retry=Retries(0))
    async def work(job: Job) -> None:
        job.progress(30, stage="first")
        job.progress(70, stage="last")
        if ending == "fails":
            raise ValueError("no")

    async def body(_: Worker) -> Any:
        handle = await work.aenqueue()
        with contextlib.suppress(JobFailed):
            await handle.aresult(30)
        return await handle.aprogress()

    assert run(app, body)[:2] == ((70 if ending == "fails" else 100), "last")


def test_a_retry_starts_at_zero(app: Treadle) -> None:
    go = asyncio.Event()

    @app.job(retry=Retries(backoff=SOON))
    async def work(job: Job) -> None:
        if job.attempt == 1:
            job.progress(70, stage="first")
            for _ in job.track("ab"):
                pass
            raise ValueError("no")
        await go.wait()

    async def body(_: Worker) -> None:
        handle = await work.aenqueue()

        async def again() -> bool:
            row = await handle.ajob()
            return row.attempts == 2 and row.status == "running"

        await auntil(again)
        assert (await handle.aprogress())[:3] == (0, None, None)
        go.set()
        await handle.aresult(30)

    run(app, body)


def test_progress_of_a_job_that_was_taken_away_is_refused(app: Treadle, connection: Connection[Any]) -> None:
    go = asyncio.Event()

    @app.job
    async def work(job: Job) -> None:
        await go.wait()
        job.progress(70, stage="late")
        await asyncio.sleep(0.6)

    async def body(_: Worker) -> None:
        handle = await work.aenqueue()
        await auntil(lambda: one(connection, "select status = 'running' from jobs"))
        connection.execute("update jobs set lease = lease + 1, worker_id = 'other'")
        go.set()
        await auntil(lambda: not len(_.running))
        assert (await handle.aprogress())[:2] == (0, None)

    run(app, body)


def test_three_hundred_thousand_calls_cost_five_statements_a_second(app: Treadle, url: str) -> None:
    """50 jobs report without end. Counts the statements of the worker that change jobs."""
    calls, stop = 0, False

    @app.job
    async def chatter(job: Job) -> None:
        nonlocal calls
        percent = 0.0
        while not stop:
            for _ in range(100):
                percent += 0.0001
                job.progress(min(percent, 100.0), stage="going")
            calls += 100
            await asyncio.sleep(0)

    async def body(worker: Worker) -> tuple[int, float]:
        nonlocal stop
        sent = _count_statements(worker)
        await chatter.aenqueue_many({} for _ in range(50))
        await auntil(lambda: len(worker.running) == 50)
        sent.clear()
        before, began = calls, time.monotonic()
        await auntil(lambda: calls - before >= 300_000, 120)
        written, seconds = len(sent), time.monotonic() - began
        stop = True
        await auntil(lambda: not len(worker.running))
        return written, seconds

    written, seconds = run(app, body, concurrency=50)
    assert written <= 5 * seconds + 1


@pytest.mark.own_database  # its statistics are counted
def test_progress_is_written_in_place(app: Treadle, connection: Connection[Any]) -> None:
    """As HOT updates, without index entries, counted by PostgreSQL."""

    sent: list[str] = []

    @app.job
    async def work(job: Job) -> None:
        while len(sent) < 10:
            job.progress(2 * len(sent), stage=f"stage {len(sent)}")
            await asyncio.sleep(0.05)

    async def body(worker: Worker) -> None:
        nonlocal sent
        sent = _count_statements(worker)
        await (await work.aenqueue()).aresult(60)

    run(app, body)

    def counted() -> tuple[int, int]:
        connection.execute("select pg_stat_clear_snapshot()")
        row = connection.execute(
            "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relid = 'treadle.jobs'::regclass"
        ).fetchone()
        return row or (0, 0)

    updated, hot = until(lambda: (found := counted())[0] >= 8 and found)
    # All but the claim, the first report (claimed becomes running) and the completion.
    assert updated - hot <= 3, (updated, hot)


def test_a_job_without_progress_costs_no_statement(app: Treadle, queue: JobQueue) -> None:
    """Quick jobs need no statements but claims and completions, in batches."""

    @app.job
    async def noop() -> None: ...

    async def body(worker: Worker) -> list[str]:
        await noop.aenqueue_many({} for _ in range(500))
        sent = _count_statements(worker)
        worker.claimers[0].wake()
        await auntil(lambda: queue.counts()[Status.COMPLETED] == 500)
        return [text for text in sent if "complete_job" in text or "report_jobs" in text or "record" in text]

    written = run(app, body)
    assert all("complete_job" in text for text in written)
    assert len(written) <= 60


def test_a_total_that_is_too_large_does_not_lose_the_outcome(app: Treadle) -> None:
    @app.job(retry=Retries(0))
    async def counts(job: Job, total: int) -> str:
        with contextlib.suppress(InvalidArgument):
            for _ in job.track(iter(range(3)), total=total):
                await asyncio.sleep(0.2)
        return "done"

    async def body(_: Worker) -> None:
        for exponent in (308, 400):
            assert await (await counts.aenqueue(total=10**exponent)).aresult(30) == "done"

    run(app, body)


def _count_statements(worker: Worker) -> list[str]:
    """The statements that the worker sends for outcomes and reports, from now on."""
    sent: list[str] = []
    send = worker.connections.outcomes.run

    async def counted(query: Any) -> Any:
        sent.append(query.text)
        return await send(query)

    worker.connections.outcomes.run = counted  # type: ignore[method-assign]
    return sent
