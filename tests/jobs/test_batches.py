"""Batches: jobs that are added over time, and what happens when all have ended."""

import asyncio
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from chaos.proxy import Proxy
from psycopg import Connection

from tests.jobs.test_workflows import Shop
from tests.support.doctor import assert_ok, get_finding
from tests.support.workers import drain, running_worker
from treadle import Job, JobCancelled, JobNotFound, MaxPending, Once, QueueFull, Status, Treadle, WorkflowEnded
from treadle.doctor import Limits


@pytest.fixture
def shop(app: Treadle) -> Shop:
    return Shop(app)


def test_a_batch_ends_when_it_is_closed_and_all_have_ended(shop: Shop) -> None:
    batch = shop.app.batch("import 7", on_complete=shop.note.call("complete"), on_success=shop.note.call("success"))
    batch.enqueue(shop.number, 1)
    shop.run()
    assert batch.status() == Status.PENDING
    assert batch.why().name == "open_batch"
    assert batch.enqueue_many(shop.number, ({"n": n} for n in range(2, 4))) == 2
    assert batch.counts() == (True, 3, 1, 0, 0)
    assert batch.close()
    assert not batch.close()
    assert batch.counts().left == 2
    shop.run()
    assert batch.result(timeout=30) is None
    assert batch.counts() == (False, 3, 3, 0, 0)
    assert sorted(shop.ran) == ["complete", "number 1", "number 2", "number 3", "success"]
    assert shop.ran[-1] in ("complete", "success")


def test_callbacks_of_a_batch_that_fails(shop: Shop) -> None:
    complete, success, failure = (shop.note.call(name) for name in ("on_complete", "on_success", "on_failure"))
    with shop.app.batch("import 7", on_complete=complete, on_success=success, on_failure=failure) as batch:
        batch.enqueue(shop.fail_once)
        batch.enqueue(shop.number, 1)
    shop.run()
    assert batch.status() == Status.FAILED
    assert sorted(shop.ran) == ["number 1", "on_complete", "on_failure"]
    shop.broken = False
    assert batch.retry() == 1
    shop.run()
    # It has completed now; the other two ran when it failed, and do not run again.
    assert batch.status() == Status.COMPLETED
    assert sorted(shop.ran) == ["number 1", "on_complete", "on_failure", "on_success"]


def test_a_callback_that_is_not_needed_is_cancelled(shop: Shop) -> None:
    with shop.app.batch("import 7", on_failure=shop.note.call("on_failure")) as batch:
        batch.enqueue(shop.number, 1)
    shop.run()
    assert batch.status() == Status.COMPLETED
    (callback,) = shop.app.queue.list(job_type="note").jobs
    assert callback.status == Status.CANCELLED
    assert callback.last_error == f"not needed: job {batch.id} (workflow), which it waits for, completed"


def test_an_empty_batch_completes(shop: Shop) -> None:
    with shop.app.batch("nothing", on_success=shop.note.call("success")) as batch:
        pass
    shop.run()
    assert batch.status() == Status.COMPLETED
    assert shop.ran == ["success"]


def test_jobs_of_a_batch_add_more(shop: Shop) -> None:
    app = shop.app

    @app.job
    def spread(job: Job, depth: int) -> None:
        shop.ran.append(str(depth))
        if depth:
            spread.using(workflow=job).enqueue_many([{"depth": depth - 1}] * 2)

    with app.batch("tree", on_complete=shop.note.call("complete")) as batch:
        batch.enqueue(spread, depth=3)
    shop.run()
    assert batch.counts() == (False, 15, 15, 0, 0)
    assert shop.ran[-1] == "complete"
    with pytest.raises(WorkflowEnded, match="it has ended"):
        batch.enqueue(spread, depth=0)


def test_a_block_that_raises_cancels_the_batch(shop: Shop) -> None:
    batch = shop.app.batch("import 7", on_complete=shop.note.call("c"))

    def broken() -> None:
        with batch:
            batch.enqueue(shop.number, 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    shop.run()
    with pytest.raises(JobCancelled, match="raised ZeroDivisionError"):
        batch.result(timeout=30)
    assert shop.ran == ["c"]


def test_a_batch_that_stays_open_because_its_block_raised_during_an_outage_is_named(
    shop: Shop, url: str, connection: Connection[Any]
) -> None:
    """By the error of the block, and by the doctor when nothing is left to wait for."""
    proxy = Proxy(url)
    app = Treadle(proxy.url)
    batch, empty = app.batch("import 7"), app.batch("import 8")

    def broken() -> None:
        with empty, batch:
            batch.enqueue(shop.number, 1)
            proxy.close()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        broken()
    note, _ = raised.value.__notes__
    assert note.startswith(f"Batch {batch.id} stays open, because it could not be cancelled (")
    assert note.endswith(f": treadle cancel {batch.id}")
    app.close()
    shop.run()
    assert shop.app.handle(batch.id).status() == Status.PENDING
    soon = Limits(forgotten_batch=(0, 86_400))
    connection.execute("select roll_up_workflows('-infinity')")
    found = get_finding(url, "forgotten_batches", soon).detail
    assert str(batch.id) in found
    assert str(empty.id) in found
    shop.app.handle(batch.id).cancel()
    shop.app.handle(empty.id).cancel()
    assert_ok(url, "forgotten_batches", soon)


def test_a_batch_that_was_cancelled_and_is_retried_is_closed(shop: Shop) -> None:
    batch = shop.app.batch("import 7")
    batch.enqueue(shop.number, 1)
    batch.cancel()
    assert batch.retry() == 1
    shop.run()
    assert batch.status() == Status.COMPLETED


def test_async(shop: Shop) -> None:
    async def scenario() -> None:
        async with await shop.app.abatch("import 7", on_success=shop.note.call("success")) as batch:
            await batch.aenqueue(shop.number, 1)
            assert await batch.aenqueue_many(shop.number, [{"n": 2}]) == 1
            assert (await batch.acounts()).jobs == 2
        async with running_worker(shop.app, concurrency=1):
            await batch.aresult(timeout=30)
            while len(shop.ran) < 3:
                await asyncio.sleep(0.01)

    asyncio.run(scenario())
    assert shop.ran == ["number 1", "number 2", "success"]


def test_a_batch_in_the_transaction_of_the_caller(shop: Shop, connection: psycopg.Connection[Any]) -> None:
    batch = shop.app.batch("import 7")
    connection.autocommit = False
    shop.number.using(workflow=batch, connection=connection).enqueue(1)
    batch.close()
    shop.run()
    assert batch.status() == Status.PENDING  # a transaction that adds to it is still open
    connection.commit()
    shop.run()
    assert batch.status() == Status.COMPLETED
    assert batch.counts().completed == 1


def test_what_is_refused(shop: Shop) -> None:
    with pytest.raises(JobNotFound):
        shop.number.using(workflow=uuid4()).enqueue(1)
    alone = shop.number.enqueue(1)
    with pytest.raises(JobNotFound):
        shop.number.using(workflow=alone).enqueue(1)
    with pytest.raises(ValueError, match="workflow must be a job"):
        shop.number.using(workflow="import 7").enqueue(1)
    with pytest.raises(ValueError, match="on_complete must be a call"):
        shop.app.batch("x", on_complete=shop.note)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="got on_sucess"):
        shop.app.batch("x", on_sucess=shop.note.call("x"))
    with pytest.raises(JobNotFound):
        shop.app.workflow(uuid4()).counts()
    with pytest.raises(ValueError, match="job functions and their arguments"):
        shop.app.batch("x").enqueue(len)  # type: ignore[arg-type]
    assert shop.app.queue.counts()[Status.PENDING] == 2  # that job and that batch


def test_a_deadline(shop: Shop, connection: psycopg.Connection[Any]) -> None:
    with shop.app.batch("import 7", deadline="1h", on_failure=shop.note.call("late")) as batch:
        batch.enqueue(shop.number.using(delay="2h"), 1)
    connection.execute("update jobs set expires_at = clock_timestamp() where id = %s", [batch.id])
    connection.execute("update expiries set look_at = clock_timestamp()")
    connection.execute("select expire_jobs()")
    assert batch.status() == Status.CANCELLED
    assert "the deadline, " in str(batch.job().last_error)
    assert [job.status for job in batch.jobs()] == ["cancelled"]
    shop.run()
    assert shop.ran == ["late"]


def test_unique_jobs_and_full_queues_add_only_what_is_new(app: Treadle) -> None:
    @app.job(limits=MaxPending(2))
    async def load(n: int) -> None: ...

    drain(app)  # so that the limit is known
    batch = app.batch("import 7")
    batch.enqueue(load.using(unique=Once(key="same")), 1)
    batch.enqueue(load.using(unique=Once(key="same")), 1)
    assert batch.counts().jobs == 1
    with pytest.raises(QueueFull):
        batch.enqueue_many(load, [{"n": 2}, {"n": 3}])
    assert batch.counts().jobs == 1
