"""job.replace_with(): the result of a job is that of other jobs."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.jobs.test_workflows import Shop
from tests.support.workers import drain
from treadle import Job, JobCancelled, JobFailed, MaxPending, Retries, Status, Treadle, Workflow, chain, group
from treadle.db.queries import worker as worker_queries
from treadle.jobs.workflows.workflow import replacement
from treadle.words.job import Claim
from treadle.words.outcome import Ending, Outcome


class Replacing(Shop):
    def __init__(self, app: Treadle) -> None:
        super().__init__(app)
        self.work: Any = None

        @app.job
        async def replaced(job: Job, n: int = 0) -> Any:
            self.ran.append(f"replaced {n}")
            return job.replace_with(self.work)

        @app.job
        def in_thread(job: Job) -> Any:
            return job.replace_with(self.work)

        @app.job
        async def anything(value: Any) -> Any:
            return value

        self.replaced, self.in_thread, self.anything = replaced, in_thread, anything


@pytest.fixture
def shop(app: Treadle) -> Replacing:
    return Replacing(app)


def test_whoever_waits_for_a_job_gets_the_result_of_what_replaces_it(shop: Replacing) -> None:
    one, double, total = shop.number.call, shop.double.call, shop.total.call
    works: list[tuple[Any, Any]] = [
        (one(12), 12),
        (chain(one(6), double()), 12),
        (group(one(1), one(2)), [1, 2]),
        (group(one(1), one(2)).then(total()), 3),
        (shop.nothing.call(), None),
    ]
    for work, result in works:
        shop.work = work
        handle = shop.replaced.enqueue()
        after = shop.anything.enqueue(handle.output)
        whole = chain(shop.replaced.call(1), shop.anything.call()).enqueue()
        listed = group(shop.in_thread.call(), one(5)).then(shop.anything.call()).enqueue()
        shop.run()
        assert handle.result(timeout=30) == after.result(timeout=5) == whole.result(timeout=5) == result
        assert listed.result(timeout=30) == [result, 5]
        assert handle.job().status == Status.COMPLETED
        assert handle.job().started_at is not None


def test_a_replaced_job_waits_and_is_retried_with_its_replacement(shop: Replacing) -> None:
    shop.work = shop.fail_once.call(4)
    handle = shop.replaced.enqueue()
    whole = shop.app.workflow(handle.id)
    drain(shop.app, types=["replaced"])
    job = handle.job()
    assert (job.status, job.worker_id, handle.why().name) == (Status.PENDING, None, "waiting_for_jobs")
    (other,) = whole.jobs()
    assert str(other.id) in handle.why().sentence
    shop.run()
    with pytest.raises(JobFailed, match=r"\(fail_once\) failed: ValueError: broken"):
        handle.result(timeout=30)
    shop.broken = False
    assert whole.retry() == 1
    shop.run()
    assert handle.result(timeout=30) == 4
    assert shop.ran == ["replaced 0"]


def test_a_replaced_job_is_cancelled_with_its_replacement(shop: Replacing) -> None:
    shop.work = shop.number.call(4)
    handle = shop.replaced.enqueue()
    drain(shop.app, types=["replaced"])
    (other,) = shop.app.workflow(handle.id).jobs()
    handle.cancel("no longer")
    assert shop.app.handle(other.id).status() == Status.CANCELLED
    with pytest.raises(JobCancelled, match="no longer"):
        handle.result(timeout=30)


def test_a_replaced_job_keeps_its_key(shop: Replacing) -> None:
    shop.work = shop.number.call(1)
    shop.replaced.using(key="k").enqueue()
    drain(shop.app, types=["replaced"])
    shop.number.using(key="k", priority=200).enqueue(2)
    shop.run()
    assert shop.ran == ["replaced 0", "number 1", "number 2"]
    shop.work = shop.number.using(key="k").call(1)
    stuck = shop.replaced.using(key="k").enqueue()
    shop.run()
    with pytest.raises(JobFailed, match="keeps its key k until"):
        stuck.result(timeout=30)


def test_what_the_job_waited_for_no_longer_matters(shop: Replacing) -> None:
    @shop.app.job
    async def given(job: Job, result: int) -> int:
        return job.replace_with(shop.double.call(result))

    first = shop.fail_once.using(after=shop.number.enqueue(1)).enqueue(5)
    shop.broken = False
    handle = given.enqueue(result=first.output)
    drain(shop.app, types=["number", "fail_once", "given"])
    shop.broken = True
    first.retry()
    shop.run()
    assert first.status() == Status.FAILED
    assert handle.result(timeout=30) == 10


def test_jobs_that_a_replacement_adds_join_the_group_of_the_replaced_job(shop: Replacing) -> None:
    number, anything = shop.number, shop.anything

    @shop.app.job
    async def more(job: Job) -> int:
        await number.using(workflow=job).aenqueue(5)
        return 0

    @shop.app.job
    async def again(job: Job) -> int:
        return job.replace_with(more.call())

    shop.work = again.call()
    in_chord = group(shop.replaced.call(), number.call(1)).then(anything.call()).enqueue()
    shop.run()
    assert in_chord.result(timeout=30) == [0, 1, 5]
    shop.work = group(more.call(), number.call(1))
    in_group = group(shop.replaced.call(), number.call(2)).enqueue()
    alone = shop.replaced.enqueue()
    shop.run()
    assert in_group.result(timeout=30) == [[0, 1, 5], 2]
    assert alone.result(timeout=30) == [0, 1, 5]


def test_a_replacement_that_cannot_be_enqueued_fails_the_job(app: Treadle, shop: Replacing) -> None:
    @app.job(limits=[MaxPending(1)])
    async def few(n: int) -> int:
        return n

    late = Workflow(deadline="1h")
    late.add(shop.number.call(1))
    for work, problem in [
        (shop.number.call("x"), "number.n"),
        (late, "cannot have callbacks or a deadline"),
        (group(few.call(1), few.call(2)), "max_pending is reached"),
    ]:
        shop.work = work
        handle = shop.replaced.enqueue()
        shop.run()
        with pytest.raises(JobFailed, match=problem):
            handle.result(timeout=30)
        assert handle.job().attempts == 1
    shop.work = 7
    wrong = shop.replaced.using(retry=Retries(0)).enqueue()
    shop.run()
    with pytest.raises(JobFailed, match="needs a call"):
        wrong.result(timeout=30)
    assert shop.app.queue.counts().get(Status.PENDING, 0) == 0


def test_a_replacement_uses_the_stored_values_of_its_arguments(
    shop: Replacing, connection: psycopg.Connection[Any]
) -> None:
    stored = shop.app.store(b"content")
    shop.work = shop.anything.call(stored)
    handle = shop.replaced.enqueue()
    drain(shop.app, types=["replaced"])
    (other,) = shop.app.workflow(handle.id).jobs()
    assert connection.execute("select job_id from stored_uses").fetchall() == [(other.id,)]
    shop.work = shop.anything.call(replace(stored, id=uuid4()))
    missing = shop.replaced.enqueue()
    shop.run()
    with pytest.raises(JobFailed, match="does not exist"):
        missing.result(timeout=30)


def test_a_job_whose_claim_is_lost_is_not_replaced(shop: Replacing, connection: psycopg.Connection[Any]) -> None:
    """Or there would be two replacements: the attempt after it makes one, too."""
    shop.work = shop.number.call(4)
    handle = shop.replaced.enqueue()

    @shop.app.middleware
    async def recovered(job: Job, call_next: Any) -> Any:
        result = await call_next()
        if job.type == "replaced" and job.attempt == 1:
            connection.execute("update jobs set status = 'pending', worker_id = null where id = %s", [job.id])
        return result

    shop.run()
    assert handle.result(timeout=30) == 4
    assert shop.ran == ["replaced 0", "replaced 0", "number 4"]
    assert len(shop.app.workflow(handle.id).jobs()) == 1


def test_a_replacement_and_the_end_of_the_attempt_are_one_transaction(
    shop: Replacing, connection: psycopg.Connection[Any]
) -> None:
    """A worker that dies in the midst of it leaves nothing behind."""
    shop.work = shop.number.call(4)
    handle = shop.replaced.enqueue()
    connection.execute("select claim_jobs('w', '{replaced}')")
    query = worker_queries.replace(
        "w",
        Claim(handle.id, 1, "replaced", "{}", 1, 3, 0, "default", 100, None, None, 0.0),
        Outcome(Ending.REPLACED, result=replacement(shop.work)),
        0.5,
    )

    def dies() -> None:
        with shop.app.database.transaction() as transaction:
            assert shop.app.database.run_in(transaction, query) == (True, None)
            assert not shop.app.database.run_in(transaction, query).accepted
            raise ConnectionError

    with pytest.raises(ConnectionError):
        dies()
    assert (handle.status(), shop.app.queue.counts().get(Status.PENDING, 0)) == (Status.CLAIMED, 0)
    shop.app.database.run(query)
    shop.app.database.run(query)
    assert [each.job_type for each in shop.app.workflow(handle.id).jobs()] == ["number"]


def test_a_job_replaces_itself_only_by_its_result(shop: Replacing) -> None:
    @shop.app.job(retry=Retries(0))
    def completes(job: Job) -> None:
        with job.transaction():
            job.complete(job.replace_with(shop.number.call(1)))

    handle = completes.enqueue()
    shop.run()
    with pytest.raises(JobFailed, match="needs a result"):
        handle.result(timeout=30)
