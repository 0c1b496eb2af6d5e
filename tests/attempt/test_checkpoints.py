"""Checkpoints: what an attempt saves, and the next one finds."""

from datetime import date
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import SOON, auntil, one, result_of, run
from treadle import InvalidArgument, InvalidPayload, Job, JobFailed, JobInterrupted, JobQueue, Retries, Treadle
from treadle.worker.worker import Worker


@pytest.mark.parametrize("place", ["loop", "thread"])
def test_the_next_attempt_finds_what_was_saved(app: Treadle, place: str) -> None:
    found: list[Any] = []

    @app.job(retry=Retries(backoff=SOON), name="work")
    async def on_loop(job: Job) -> None:
        found.append(job.checkpoint)
        if job.attempt < 3:
            await job.asave({"row": job.attempt})
            raise ValueError

    @app.job(retry=Retries(backoff=SOON), name="sync")
    def on_thread(job: Job) -> None:
        found.append(job.checkpoint)
        if job.attempt < 3:
            job.save({"row": job.attempt})
            raise ValueError

    result_of(app, on_loop if place == "loop" else on_thread)
    assert found == [None, {"row": 1}, {"row": 2}]


def test_a_checkpoint_is_durable_when_save_returns(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    def work(job: Job) -> None:
        for n in range(20):
            job.save(n)
            assert job.checkpoint == n
            assert one(connection, "select checkpoint from jobs") == n

    result_of(app, work)


def test_a_checkpoint_that_would_come_back_as_something_else_is_refused(app: Treadle) -> None:
    problems: list[str] = []

    @app.job
    def work(job: Job) -> Any:
        job.save({"names": ["a", "b"]})
        for state in ({"at": date(2024, 2, 29)}, {"names": ("a", "b")}, {1, 2}, {1: 2}):
            try:
                job.save(state)
            except InvalidPayload as error:
                problems.append(error.path)
        return job.checkpoint

    assert result_of(app, work) == {"names": ["a", "b"]}
    assert problems == ["checkpoint.at", "checkpoint.names", "checkpoint", "checkpoint"]


def test_a_checkpoint_that_cannot_be_stored_is_refused_and_the_old_one_stays(app: Treadle) -> None:
    @app.job
    def work(job: Job) -> Any:
        job.save(1)
        for bad in (float("nan"), object(), "x" * 300_000):
            with pytest.raises(InvalidPayload, match="checkpoint"):
                job.save(bad)
        return job.checkpoint

    assert result_of(app, work) == 1


def test_saving_on_the_event_loop_is_refused_with_advice(app: Treadle) -> None:
    @app.job(retry=Retries(0))
    async def work(job: Job) -> None:
        for use, twin in (
            (lambda: job.save(1), "asave"),
            (lambda: job.step("a", int), "astep"),
            (lambda: job.transact("a", lambda connection: None), "atransact"),
            (job.transaction, "atransaction"),
        ):
            with pytest.raises(InvalidArgument, match=f"await job.{twin}"):
                use()

    result_of(app, work)


def test_a_handler_that_has_lost_its_job_cannot_save(app: Treadle, connection: Connection[Any]) -> None:
    """The handler is interrupted, and nothing is written."""
    after: list[str] = []

    @app.job
    def work(job: Job) -> None:
        job.save(1)
        connection.execute("update jobs set lease = lease + 1, worker_id = 'other'")
        try:
            job.save(2)
        except JobInterrupted:
            after.append("interrupted")
            raise
        after.append("went on")

    async def body(worker: Worker) -> None:
        await work.aenqueue()
        await auntil(lambda: after)
        await auntil(lambda: not len(worker.running))

    run(app, body)
    assert after == ["interrupted"]
    assert one(connection, "select checkpoint from jobs") == 1
    assert one(connection, "select status from jobs") != "completed"


@pytest.mark.fresh_database
def test_saving_survives_a_broken_connection(app: Treadle, connection: Connection[Any]) -> None:
    @app.job(retry=Retries(0))
    def work(job: Job) -> None:
        for n in range(3):
            job.save(n)
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid() and application_name = 'treadle'"
            )

    result_of(app, work)
    assert one(connection, "select checkpoint from jobs") == 2


def test_a_failed_job_that_is_retried_by_hand_continues_from_its_checkpoint(app: Treadle, queue: JobQueue) -> None:
    found: list[Any] = []

    @app.job(retry=Retries(0))
    def work(job: Job) -> None:
        found.append(job.checkpoint)
        job.save("half")
        if len(found) == 1:
            raise ValueError

    async def body(_: Worker) -> None:
        handle = await work.aenqueue()
        with pytest.raises(JobFailed):
            await handle.aresult(30)
        queue.retry(handle.id)
        await handle.aresult(30)
        # A completed job starts from the beginning.
        queue.retry(handle.id)
        await auntil(lambda: len(found) == 3)
        await handle.aresult(30)

    run(app, body)
    assert found == [None, "half", None]
