"""Steps: called once over all attempts, with the same result in each."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import SOON, auntil, one, result_of, run
from treadle import InvalidPayload, Job, JobFailed, JobQueue, Retries, Treadle
from treadle.worker.worker import Worker


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

    @app.job(retry=Retries(backoff=SOON))
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

    @app.job(retry=Retries(backoff=SOON))
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

    @app.job(retry=Retries(backoff=SOON))
    def work(job: Job) -> str:
        return job.step("shaky", shaky)

    assert result_of(app, work) == "done"
    assert calls == ["shaky", "shaky"]


def test_every_attempt_sees_the_stored_result(app: Treadle) -> None:
    """Also the first attempt: otherwise it would see an object that the step still shares."""
    made: list[tuple[int, list[int]]] = []
    seen: list[Any] = []

    def pair() -> tuple[int, list[int]]:
        made.append((1, [2]))
        return made[-1]

    @app.job(retry=Retries(backoff=SOON))
    def work(job: Job) -> None:
        seen.append(job.step("pair", pair))
        made[0][1].append(3)
        if job.attempt == 1:
            raise ValueError

    result_of(app, work)
    assert seen == [(1, [2]), (1, [2])]


def test_a_result_that_would_come_back_as_something_else_is_refused(app: Treadle) -> None:
    def pair() -> Any:
        return (1, 2)

    @app.job
    def work(job: Job) -> str:
        with pytest.raises(InvalidPayload) as refused:
            job.step("pair", pair)
        return str(refused.value)

    assert "the result of step pair: a value of type tuple would come back as list; annotate it" in result_of(app, work)


def test_concurrent_steps_are_identified_by_their_order(app: Treadle) -> None:
    calls: list[int] = []

    async def square(n: int) -> int:
        calls.append(n)
        await asyncio.sleep(0.01 * (3 - n))
        return n * n

    @app.job(retry=Retries(backoff=SOON))
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

    @app.job(retry=Retries(1, backoff=SOON))
    def work(job: Job) -> None:
        for name in ["a", "b"] if job.attempt == 1 else later:
            job.step(name, nothing)
        if job.attempt == 1:
            raise ValueError

    with pytest.raises(JobFailed, match=problem):
        result_of(app, work)


def test_more_steps_may_come_after_those_that_were_done(app: Treadle) -> None:
    def nothing() -> None: ...

    @app.job(retry=Retries(1, backoff=SOON))
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

    @app.job(retry=Retries(1, backoff=SOON))
    def work(job: Job) -> None:
        if job.attempt == 1:
            job.step("a", number)
            raise ValueError
        job.step("a", text)

    with pytest.raises(JobFailed, match="returned a value in an earlier attempt"):
        result_of(app, work)


def test_a_handler_that_has_lost_its_job_cannot_finish_a_step(app: Treadle, connection: Connection[Any]) -> None:
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


def test_steps_are_deleted_with_their_job(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    def work(job: Job) -> None:
        job.step("a", int)

    result_of(app, work)
    assert one(connection, "select count(*) from steps") == 1
    connection.execute("delete from jobs")
    assert one(connection, "select count(*) from steps") == 0


def test_a_callable_that_cannot_be_hashed_can_be_a_step(app: Treadle) -> None:
    from dataclasses import dataclass

    calls: list[int] = []

    @dataclass
    class Upload:
        path: str

        def __call__(self) -> int:
            calls.append(1)
            return 3

    @app.job(retry=Retries(0))
    def uploads(job: Job) -> int:
        return job.step("upload", Upload("a"))

    async def body(_: Worker) -> None:
        assert await (await uploads.aenqueue()).aresult(30) == 3

    run(app, body)
