"""What a job remembers from one attempt to the next: checkpoints and steps."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import auntil, one, run
from treadle import InvalidArgument, InvalidPayload, Job, JobFailed, JobInterrupted, JobQueue, Treadle
from treadle.worker import Worker

pytestmark = pytest.mark.own_database


def result_of(app: Treadle, job: Any, **arguments: Any) -> Any:
    """Of one job, run to its end."""

    async def body(_: Worker) -> Any:
        return await (await job.aenqueue(**arguments)).aresult(30)

    return run(app, body)


# Checkpoints


@pytest.mark.parametrize("place", ["loop", "thread"])
def test_the_next_attempt_finds_what_was_saved(app: Treadle, place: str) -> None:
    found: list[Any] = []

    @app.job(name="work")
    async def on_loop(job: Job) -> None:
        found.append(job.checkpoint)
        if job.attempt < 3:
            await job.asave({"row": job.attempt})
            raise ValueError

    @app.job(name="sync")
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


def test_a_checkpoint_may_be_whatever_becomes_json(app: Treadle) -> None:
    @app.job
    def work(job: Job) -> Any:
        job.save({"at": date(2024, 2, 29), "names": ("a", "b")})
        return job.checkpoint

    assert result_of(app, work) == {"at": "2024-02-29", "names": ["a", "b"]}


def test_a_checkpoint_that_cannot_be_stored_is_refused_and_the_old_one_stays(app: Treadle) -> None:
    @app.job
    def work(job: Job) -> Any:
        job.save(1)
        for bad in (float("nan"), object(), "x" * 300_000):
            with pytest.raises(InvalidPayload, match="checkpoint"):
                job.save(bad)
        return job.checkpoint

    assert result_of(app, work) == 1


def test_saving_on_the_loop_says_what_to_do(app: Treadle) -> None:
    @app.job(max_attempts=1)
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


def test_whoever_lost_the_job_cannot_save(app: Treadle, connection: Connection[Any]) -> None:
    """The handler stops there, and nothing of it is written."""
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


def test_saving_survives_a_broken_connection(app: Treadle, connection: Connection[Any]) -> None:
    @app.job(max_attempts=1)
    def work(job: Job) -> None:
        for n in range(5):
            job.save(n)
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid() and application_name = 'treadle'"
            )

    result_of(app, work)
    assert one(connection, "select checkpoint from jobs") == 4


def test_a_failed_job_that_is_retried_by_hand_goes_on_where_it_was(app: Treadle, queue: JobQueue) -> None:
    found: list[Any] = []

    @app.job(max_attempts=1)
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
        # What was completed begins anew.
        queue.retry(handle.id)
        await auntil(lambda: len(found) == 3)
        await handle.aresult(30)

    run(app, body)
    assert found == [None, "half", None]


# Steps


@dataclass
class Receipt:
    number: int
    at: datetime


def test_a_step_that_was_done_is_not_done_again(app: Treadle) -> None:
    calls: list[str] = []

    async def upload(path: str) -> Receipt:
        calls.append(f"upload {path}")
        return Receipt(7, datetime(2024, 2, 29, tzinfo=UTC))

    def count(receipt: Receipt) -> int:
        calls.append("count")
        return receipt.number

    @app.job
    async def publish(job: Job, path: str) -> int:
        receipt = await job.step("upload", upload, path)
        assert receipt == Receipt(7, datetime(2024, 2, 29, tzinfo=UTC))
        number: int = await job.astep("count", count, receipt)
        if job.attempt < 3:
            raise ValueError
        return number

    assert result_of(app, publish, path="a.pdf") == 7
    assert calls == ["upload a.pdf", "count"]


def test_steps_of_a_sync_handler(app: Treadle) -> None:
    calls: list[int] = []

    def half(n: int) -> float:
        calls.append(n)
        return n / 2

    @app.job
    def work(job: Job) -> list[float]:
        halves = [job.step(f"half of {n}", half, n) for n in range(4)]
        if job.attempt == 1:
            raise ValueError
        return halves

    assert result_of(app, work) == [0.0, 0.5, 1.0, 1.5]
    assert calls == [0, 1, 2, 3]


def test_a_step_that_fails_is_done_again(app: Treadle) -> None:
    calls: list[str] = []

    def shaky() -> str:
        calls.append("shaky")
        if len(calls) == 1:
            raise ConnectionError
        return "done"

    @app.job
    def work(job: Job) -> str:
        return job.step("shaky", shaky)

    assert result_of(app, work) == "done"
    assert calls == ["shaky", "shaky"]


def test_every_attempt_sees_what_was_written_down(app: Treadle) -> None:
    """Also the first: a tuple would be a list in the second."""
    seen: list[Any] = []

    def pair() -> Any:
        return (1, 2)

    @app.job
    def work(job: Job) -> None:
        seen.append(job.step("pair", pair))
        if job.attempt == 1:
            raise ValueError

    result_of(app, work)
    assert seen == [[1, 2], [1, 2]]


def test_steps_at_once_are_told_apart_by_their_order(app: Treadle) -> None:
    calls: list[int] = []

    async def square(n: int) -> int:
        calls.append(n)
        await asyncio.sleep(0.01 * (3 - n))
        return n * n

    @app.job
    async def work(job: Job) -> list[int]:
        squares = await asyncio.gather(*(job.step(f"square {n}", square, n) for n in range(3)))
        if job.attempt == 1:
            raise ValueError
        return squares

    assert result_of(app, work) == [0, 1, 4]
    assert sorted(calls) == [0, 1, 2]


@pytest.mark.parametrize(
    ("later", "problem"),
    [
        (["a", "x", "c"], "step 2 was 'b' in an earlier attempt and is 'x' now"),
        (["a"], "step 2 of an earlier attempt, 'b', was not called"),
        (["b", "a"], "step 1 was 'a' in an earlier attempt and is 'b' now"),
    ],
)
def test_a_changed_list_of_steps_is_an_error(app: Treadle, later: list[str], problem: str) -> None:
    def nothing() -> None: ...

    @app.job(max_attempts=2)
    def work(job: Job) -> None:
        for name in ["a", "b"] if job.attempt == 1 else later:
            job.step(name, nothing)
        if job.attempt == 1:
            raise ValueError

    with pytest.raises(JobFailed, match=problem):
        result_of(app, work)


def test_more_steps_may_come_after_those_that_were_done(app: Treadle) -> None:
    def nothing() -> None: ...

    @app.job(max_attempts=2)
    def work(job: Job) -> str:
        for name in ["a", "b"] if job.attempt == 1 else ["a", "b", "c"]:
            job.step(name, nothing)
        if job.attempt == 1:
            raise ValueError
        return "done"

    assert result_of(app, work) == "done"


def test_a_result_that_is_not_what_the_step_promises_is_an_error(app: Treadle) -> None:
    def number() -> int:
        return 7

    def text() -> date:
        return date(2024, 2, 29)

    @app.job(max_attempts=2)
    def work(job: Job) -> None:
        if job.attempt == 1:
            job.step("a", number)
            raise ValueError
        job.step("a", text)

    with pytest.raises(JobFailed, match="returned something else in an earlier attempt"):
        result_of(app, work)


def test_whoever_lost_the_job_cannot_finish_a_step(app: Treadle, connection: Connection[Any]) -> None:
    def take_away() -> None:
        connection.execute("update jobs set lease = lease + 1, worker_id = 'other'")

    @app.job
    def work(job: Job) -> None:
        job.step("a", take_away)

    async def body(worker: Worker) -> None:
        await work.aenqueue()
        await auntil(lambda: one(connection, "select lease from jobs") == 2)
        await auntil(lambda: not len(worker.running))

    run(app, body)
    assert one(connection, "select count(*) from steps") == 0


def test_a_completed_job_that_is_retried_by_hand_does_its_steps_again(app: Treadle, queue: JobQueue) -> None:
    calls: list[int] = []

    @app.job
    def work(job: Job) -> None:
        job.step("a", calls.append, job.fence)

    async def body(_: Worker) -> None:
        handle = await work.aenqueue()
        await handle.aresult(30)
        queue.retry(handle.id)
        await auntil(lambda: len(calls) == 2)
        await handle.aresult(30)

    run(app, body)
    assert calls == [1, 2]


def test_steps_go_with_their_job(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    def work(job: Job) -> None:
        job.step("a", int)

    result_of(app, work)
    assert one(connection, "select count(*) from steps") == 1
    connection.execute("delete from jobs")
    assert one(connection, "select count(*) from steps") == 0
