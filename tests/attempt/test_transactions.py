"""job.transaction() and job.complete(): effects in the database that happen exactly once."""

import asyncio
import contextlib
import logging
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.support import handlers
from tests.support.effects import written
from tests.support.workers import auntil, count, one, result_of, run
from treadle import InvalidArgument, Job, JobFailed, JobQueue, Retries, Treadle, events
from treadle.worker.worker import Worker

pytestmark = pytest.mark.usefixtures("effects")


def test_writes_children_and_the_end_are_committed_together(app: Treadle, connection: Connection[Any]) -> None:
    seen: list[tuple[int, int, str]] = []

    @app.job
    def child(n: int) -> None: ...

    @app.job
    def parent(job: Job) -> str:
        job.event("before")
        with job.transaction() as transaction:
            transaction.execute("insert into public.effects values ('a')")
            child.using(connection=transaction).enqueue(n=1)
            job.event("inside")
            job.progress(90, stage="nearly")
            job.complete("done")
            seen.append((len(written(connection)), count(connection), one(connection, "select status from jobs")))
        return "not this"

    completed: list[UUID] = []
    app.on(events.JobCompleted)(lambda event: completed.append(event.job_id))

    async def body(worker: Worker) -> None:
        handle = await parent.aenqueue()
        assert await handle.aresult(30) == "done"
        await auntil(lambda: not len(worker.running) and not worker.completer.unwritten())
        assert completed == [handle.id]
        row = await handle.ajob()
        assert (row.progress, row.current_stage, row.events_count) == (100, "nearly", 2)
        assert row.started_at is not None

    run(app, body, types=["parent"])
    assert seen[0][:2] == (0, 1)  # nothing was visible before the end of the block
    assert written(connection) == ["a"]
    assert count(connection, "job_type = 'child'") == 1


def test_an_async_transaction_commits_all_of_it_too(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    async def child(n: int) -> None: ...

    @app.job
    async def parent(job: Job) -> str:
        async with job.atransaction() as transaction:
            await transaction.execute("insert into public.effects values ('a')")
            await child.using(connection=transaction).aenqueue(n=1)
            job.complete("done")
        return "not this"

    assert result_of(app, parent) == "done"
    assert written(connection) == ["a"]


def test_a_transaction_in_a_child_process_commits_all_of_it_too(
    handlers_use_test_database: None, connection: Connection[Any]
) -> None:
    async def body(_: Worker) -> None:
        handle = await handlers.transfer.aenqueue()
        assert await handle.aresult(30) == "done"
        assert (await handle.ajob()).events_count == 1

    run(handlers.app, body, types=["transfer"])
    assert written(connection) == ["a"]


def test_an_error_in_the_block_leaves_nothing(app: Treadle, connection: Connection[Any]) -> None:
    @app.job(retry=Retries(0))
    def work(job: Job) -> None:
        with job.transaction() as transaction:
            transaction.execute("insert into public.effects values ('a')")
            job.complete()
            raise ValueError("no")

    with pytest.raises(JobFailed, match="no"):
        result_of(app, work)
    assert written(connection) == []


def test_a_transaction_need_not_end_the_job(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    def work(job: Job) -> str:
        for what in ("a", "b"):
            with job.transaction() as transaction:
                transaction.execute("insert into public.effects values (%s)", [what])
        return "returned"

    assert result_of(app, work) == "returned"
    assert written(connection) == ["a", "b"]


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("place", ["loop", "thread"])
def test_a_handler_that_has_lost_its_job_commits_nothing(
    app: Treadle, connection: Connection[Any], ends: bool, place: str
) -> None:
    @app.job
    async def on_loop(job: Job) -> None:
        async with job.atransaction() as transaction:
            await transaction.execute("insert into public.effects values ('a')")
            connection.execute("update jobs set lease = lease + 1, worker_id = 'other'")
            if ends:
                job.complete()

    @app.job
    def on_thread(job: Job) -> None:
        with job.transaction() as transaction:
            transaction.execute("insert into public.effects values ('a')")
            connection.execute("update jobs set lease = lease + 1, worker_id = 'other'")
            if ends:
                job.complete()

    async def body(worker: Worker) -> None:
        await (on_loop if place == "loop" else on_thread).aenqueue()
        await auntil(lambda: one(connection, "select lease from jobs") == 2)
        await auntil(lambda: not len(worker.running))

    run(app, body)
    assert written(connection) == []
    assert one(connection, "select status from jobs") != "completed"


def test_a_job_that_is_cancelled_meanwhile_commits_nothing(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    inside, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def work(job: Job) -> None:
        async with job.atransaction() as transaction:
            await transaction.execute("insert into public.effects values ('a')")
            inside.set()
            with contextlib.suppress(asyncio.CancelledError):  # a handler that ignores the cancellation
                await go.wait()

    async def body(worker: Worker) -> None:
        handle = await work.aenqueue()
        await inside.wait()
        await handle.acancel()
        await auntil(lambda: not len(worker.running))

    run(app, body)
    assert written(connection) == []


def test_the_job_cannot_be_recovered_between_the_fence_and_the_commit(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    """The last statement of the transaction locks the row, and recovery skips locked rows."""
    job_id = queue.enqueue("a")
    (job,) = queue.claim(["a"])
    with app.database.transaction() as transaction:
        held = transaction.execute(
            "select treadle.lock_claimed(%s, array[%s::uuid], array[%s::bigint])", [queue.worker_id, job_id, job.lease]
        ).fetchone()
        assert held == ([job_id],)
        assert connection.execute("select recover_stale_jobs('0')").fetchone() == (0,)
    assert connection.execute("select recover_stale_jobs('0')").fetchone() == (1,)


def test_complete_is_for_the_inside_of_a_transaction(app: Treadle) -> None:
    @app.job(retry=Retries(0))
    def work(job: Job) -> None:
        job.complete("x")

    with pytest.raises(JobFailed, match="return the result from the handler"):
        result_of(app, work)


def test_one_transaction_at_a_time(app: Treadle) -> None:
    refused: list[str] = []

    @app.job(retry=Retries(0))
    def work(job: Job) -> None:
        with job.transaction():
            with pytest.raises(InvalidArgument, match="one transaction at a time"):
                with job.transaction():
                    pass
        with job.transaction():
            job.complete()
        try:
            with job.transaction():
                pass
        except BaseException as error:
            refused.append(str(error))  # errors after the completion are only logged

    result_of(app, work)
    assert refused == ["the job is already completed, so it cannot have another transaction"]


def test_what_is_raised_after_the_end_does_not_undo_it(app: Treadle, caplog: pytest.LogCaptureFixture) -> None:
    @app.job
    def work(job: Job) -> Any:
        with job.transaction():
            job.complete("done")
        raise ValueError("too late")

    with caplog.at_level(logging.ERROR, "treadle"):
        assert result_of(app, work) == "done"
    assert "raised an exception after it had completed itself" in caplog.text


def test_a_handler_may_go_on_after_its_job_has_ended(app: Treadle) -> None:
    """The worker does not interrupt it, although the job is no longer claimed."""
    ended: list[str] = []

    @app.job
    async def work(job: Job) -> Any:
        async with job.atransaction():
            job.complete("done")
        job.progress(99)
        try:
            await asyncio.sleep(1.6)  # lost jobs are looked for every second
        except BaseException:
            ended.append("stopped")
            raise
        ended.append("went on")

    async def body(worker: Worker) -> None:
        handle = await work.aenqueue()
        assert await handle.aresult(30) == "done"
        await auntil(lambda: not len(worker.running))

    run(app, body)
    assert ended == ["went on"]


def test_a_result_that_cannot_be_stored_rolls_back(app: Treadle, connection: Connection[Any]) -> None:
    @app.job(retry=Retries(0))
    def work(job: Job) -> int:
        with job.transaction() as transaction:
            transaction.execute("insert into public.effects values ('a')")
            job.complete(object())
        return 1

    with pytest.raises(JobFailed):
        result_of(app, work)
    assert written(connection) == []
