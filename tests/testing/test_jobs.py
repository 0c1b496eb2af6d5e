"""make_job(): a Job for a direct call of a handler."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from treadle import InvalidArgument, Job, JobInterrupted, StepsChanged, Treadle, current_job
from treadle.testing import make_job


def test_a_handler_is_called_directly_and_everything_is_recorded(app: Treadle) -> None:
    @app.job
    def load(path: str, job: Job) -> int:
        begin = job.checkpoint or 0
        with job.stage("reading"):
            for n in job.track(range(begin, 4), total=4, done=begin):
                job.save(n)
        job.event("loaded", path=path)
        return job.step("count", lambda: 4)

    job = make_job(load, checkpoint=2, attempt=2, headers={"tenant": "acme"})
    assert load("a.csv", job) == 4
    assert job.reported[-1] == (100, "reading")
    assert [each.percent for each in job.reported] == sorted(each.percent for each in job.reported)
    assert job.events == [("loaded", {"path": "a.csv"})]
    assert (job.saved, job.checkpoint) == ([2, 3], 3)
    assert job.steps == {"count": 4}
    assert (job.type, job.attempt, job.max_attempts, job.headers) == ("load", 2, 3, {"tenant": "acme"})


def test_steps_of_an_earlier_attempt_are_not_called_again() -> None:
    def upload() -> str:
        pytest.fail("called again")

    assert make_job(steps={"upload": "https://example.org/a"}).step("upload", upload) == "https://example.org/a"
    with pytest.raises(StepsChanged, match="step 1 was 'upload' in an earlier attempt and is 'other' now"):
        make_job(steps={"upload": 1}).step("other", lambda: 1)


def test_async_handlers() -> None:
    async def handler(job: Job) -> Any:
        job.progress(10)
        await job.asave({"n": 1})
        return await job.astep("one", lambda: [1, 2])

    job = make_job()
    assert asyncio.run(handler(job)) == [1, 2]
    assert (job.saved, job.steps, job.reported) == ([{"n": 1}], {"one": [1, 2]}, [(10, None)])


def test_a_cancelled_job_interrupts_its_handler() -> None:
    job = make_job()
    job.cancel()
    assert job.cancelled
    with pytest.raises(JobInterrupted):
        job.progress(10)


def test_it_can_be_the_current_job() -> None:
    with make_job().running() as job:
        assert current_job() is job
    with pytest.raises(LookupError):
        current_job()


def test_the_times_of_a_schedule() -> None:
    nine, ten = datetime(2026, 1, 5, 9, tzinfo=UTC), datetime(2026, 1, 12, 9, tzinfo=UTC)
    job = make_job(scheduled_for=ten, previously_scheduled_for=nine)
    assert (job.scheduled_for, job.previously_scheduled_for) == (ten, nine)
    assert make_job().scheduled_for is None


def test_a_transaction_needs_a_connection(app: Treadle, prepared_url: str) -> None:
    @app.job
    def pay(job: Job) -> str | None:
        with job.transaction() as connection:
            connection.execute("create temporary table paid ()")
            job.complete("paid")
        return None

    with pytest.raises(InvalidArgument, match=r"give make_job\(connection=…\), or test it with drain\(\)"):
        pay(make_job(pay))
    with psycopg.connect(prepared_url) as connection:
        job = make_job(pay, connection=connection)
        pay(job)
        assert job.completed_with == "paid"
        assert connection.execute("select to_regclass('paid') is not null").fetchall() == [(True,)]
