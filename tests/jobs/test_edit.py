"""Editing and copying jobs, and what else a handle changes: with checked arguments, and written to the audit."""

import asyncio
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.support.workers import one
from treadle import (
    InvalidArgument,
    InvalidPayload,
    JobLocked,
    JobNotFound,
    JobQueue,
    Limit,
    Once,
    Status,
    Stored,
    Treadle,
)


def fail(queue: JobQueue, job_type: str) -> None:
    (job,) = queue.claim([job_type])
    queue.fail(job, "no such user", final=True)


def last_audit(connection: Connection[Any]) -> tuple[Any, ...]:
    (row,) = connection.execute("select action, job_id, details from audit order by id desc limit 1").fetchall()
    return tuple(row)


def test_a_failed_job_is_edited_and_retried(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    @app.job
    def greet(user: int, words: list[str] = ["hello"]) -> None: ...  # noqa: B006

    handle = greet.enqueue(user=7, words=["a"])
    fail(queue, "greet")
    assert handle.edit(user=8)
    assert (handle.job().data, handle.status()) == ({"user": 8, "words": ["a"]}, Status.FAILED)
    assert last_audit(connection) == (
        "edit",
        handle.id,
        {"status": "failed", "arguments": ["user"], "retried": False},
    )
    handle.retry()
    (job,) = queue.claim(["greet"])
    assert job.data == {"user": 8, "words": ["a"]}
    assert not handle.edit(user=9), "it is claimed"
    queue.complete(job)
    assert not handle.edit(user=9), "it has completed"
    assert handle.job().data == {"user": 8, "words": ["a"]}


def test_edited_arguments_are_checked(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def greet(user: int, at: Stored | None = None) -> None: ...

    handle = greet.enqueue(user=7)
    with pytest.raises(InvalidPayload, match=r"greet\.user.*it takes \(user: int"):
        handle.edit(user="ann")
    with pytest.raises(InvalidPayload, match=r"greet\.usr.* there is no such argument.*it takes"):
        app.handle(handle.id).copy(usr=8)
    assert not handle.edit(user=7), "nothing would change"
    assert handle.job().data == {"user": 7}
    handle.delete()
    with pytest.raises(JobNotFound):
        handle.edit(user=8)
    with pytest.raises(JobNotFound):
        queue.copy(handle.id)


def test_a_job_moves_to_the_limit_of_its_new_argument(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    @app.job(limits=Limit(1, per="tenant"))
    def pay(tenant: str) -> None: ...

    connection.execute("select set_limit('pay', 1, p_per => 'tenant', p_job_type => 'pay')")
    first, second = pay.enqueue(tenant="a"), pay.enqueue(tenant="a")
    third = pay.using(partition={"tenant": "own"}).enqueue(tenant="a")
    assert second.edit(tenant="b")
    assert third.edit(tenant="b"), "it keeps the partition that it was given"
    failed = pay.enqueue(tenant="a")
    connection.execute("update jobs set status = 'failed' where id = %s", [failed.id])
    assert failed.edit(tenant="c")
    failed.retry()
    assert {each.id for each in queue.claim(["pay"])} == {first.id, second.id, third.id, failed.id}


def test_a_copy_is_a_new_job(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    @app.job(unique=Once("user"), queue="letters", priority=7)
    def greet(user: int, picture: Stored) -> int:
        return user

    picture = app.store(b"png")
    handle = greet.using(key="k", headers={"trace": "1"}, timeout="7s").enqueue(7, picture)
    copy = handle.copy()
    assert copy.id != handle.id
    assert copy.is_new
    row, was = copy.job(), handle.job()
    for name in ("job_type", "data", "queue", "priority", "key", "max_attempts", "headers"):
        assert getattr(row, name) == getattr(was, name), name
    assert one(connection, "select (unique_key, timeout)::text from jobs where id = %s", copy.id) == '(,"{7,17}")'
    assert one(connection, "select count(*) from stored_uses where job_id = %s", copy.id) == 1
    assert last_audit(connection)[:2] == ("copy", handle.id)
    other = app.store(b"jpg")
    changed = greet.handle(handle.id).copy(picture=other)
    used = connection.execute("select stored_id from stored_uses where job_id = %s", [changed.id]).fetchall()
    assert (other.id,) in used
    done = queue.claim(["greet"], queues=["letters"])
    queue.complete(done[0], 7)
    assert handle.result() == 7


def test_async_twins(app: Treadle) -> None:
    @app.job
    async def greet(user: int) -> None: ...

    async def body() -> None:
        handle = await greet.using(delay="1h").aenqueue(user=7)
        assert await handle.aedit(user=8)
        copy = await handle.acopy(user=9)
        assert ((await handle.ajob()).data, (await copy.ajob()).data) == ({"user": 8}, {"user": 9})
        assert await handle.arun_now()
        assert not await handle.arun_now()
        assert await handle.aset_priority(3)
        assert (await handle.ajob()).priority == 3
        assert await handle.adelete()
        await app.aclose()

    asyncio.run(body())


def test_the_queue_by_hand(queue: JobQueue) -> None:
    job = queue.enqueue("films", {"n": 1}, delay="1h")
    assert queue.edit(job, {"m": 2})
    copy = queue.copy(job, {"n": 3})
    assert queue.get(copy).data == {"n": 3, "m": 2}
    assert (queue.run_now(job), queue.set_priority(job, 3), queue.set_priority(job, 3)) == (True, True, False)
    assert [each.id for each in queue.claim(["films"], 1)] == [copy]
    assert (queue.delete(copy), queue.delete(job)) == (False, True)


def test_workflows_are_neither_edited_nor_copied(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def step(n: int) -> int:
        return n

    batch = app.batch("import")
    with batch:
        step.using(workflow=batch).enqueue(1)
    handle = app.handle(batch.id)
    assert not handle.edit(name="x")
    with pytest.raises(InvalidArgument, match="cannot be copied: it is a workflow"):
        handle.copy()
    waiting = step.enqueue(n=step.enqueue(1).output)
    with pytest.raises(InvalidArgument, match="waits for the results of other jobs"):
        waiting.copy()


def test_a_locked_job_is_said_to_be_locked(queue: JobQueue, connection: Connection[Any]) -> None:
    job = queue.enqueue("films")
    with connection.transaction():
        connection.execute("select from jobs where id = %s for update", [job])
        with pytest.raises(JobLocked, match=f"job {job} is locked by another transaction"):
            queue.edit(job, {"n": 1})


def test_in_sql(connection: Connection[Any]) -> None:
    job = one(connection, "select enqueue('a', '{\"n\": 1}')")
    connection.execute("update jobs set status = 'failed' where id = %s", [job])
    edit = "select edit_job(%s, %s::jsonb, p_retry => true, p_act => '0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35')"
    assert one(connection, edit, job, '{"n": 2}') == "done"
    assert one(connection, edit, job, '{"n": 3}') == "repeated"
    assert one(connection, "select (data, status)::text from jobs where id = %s", job) == '("{""n"": 2}",pending)'
    assert last_audit(connection)[2] == {"status": "failed", "arguments": ["n"], "retried": True}
    assert one(connection, "select edit_job(gen_random_uuid(), '{}')") == "missing"
    copy = "select (copy_job(%s, p_act => '0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d36')).outcome"
    assert (one(connection, copy, job), one(connection, copy, job)) == ("done", "repeated")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=r"p_arguments must be an object .* got \[1\]"):
        connection.execute("select edit_job(%s, '[1]')", [job])
