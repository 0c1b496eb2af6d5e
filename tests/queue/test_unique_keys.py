"""At most one unfinished job of a type has a given unique key."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.waiting import Barrier, until_waiting_for_lock
from tests.support.workers import count
from treadle import InvalidArgument, JobQueue, Once, Retries, Treadle


def test_a_second_enqueue_with_the_same_unique_key_returns_the_first_job(queue: JobQueue) -> None:
    first = queue.enqueue("mail", {"n": 1}, unique=Once(key="user:7"))
    assert queue.enqueue("mail", {"n": 2}, unique=Once(key="user:7"), delay="1h") == first
    assert asyncio.run(_enqueue(queue, "user:7")) == first
    assert queue.enqueue("mail", unique=Once(key="user:8")) != first
    assert queue.enqueue("invoice", unique=Once(key="user:7")) != first
    assert queue.enqueue("mail") != first
    row = queue.get(first)
    assert (row.data, row.unique_key) == ({"n": 1}, "user:7")


async def _enqueue(queue: JobQueue, unique: str) -> Any:
    try:
        return await queue.aenqueue("mail", unique=Once(key=unique))
    finally:
        await queue.aclose()


def test_a_unique_key_can_be_used_again_when_its_job_has_finished(queue: JobQueue) -> None:
    for end in (queue.complete, lambda job: queue.fail(job, "broken", final=True), queue.cancel):
        first = queue.enqueue("mail", unique=Once(key="user:7"))
        (job,) = queue.claim(["mail"])
        queue.start(job)
        assert queue.enqueue("mail", unique=Once(key="user:7")) == first
        end(job)
        second = queue.enqueue("mail", unique=Once(key="user:7"))
        assert second != first
        queue.cancel(second)


def test_a_job_keeps_its_unique_key_after_a_failed_attempt(queue: JobQueue) -> None:
    first = queue.enqueue("mail", unique=Once(key="user:7"))
    (job,) = queue.claim(["mail"])
    queue.fail(job, "broken", delay="1h")
    assert queue.enqueue("mail", unique=Once(key="user:7")) == first


def test_a_retried_job_gives_up_its_unique_key_if_a_newer_job_has_it(queue: JobQueue) -> None:
    first = queue.enqueue("mail", unique=Once(key="user:7"))
    queue.cancel(first)
    queue.retry(first)
    assert queue.enqueue("mail", unique=Once(key="user:7")) == first
    queue.cancel(first)
    second = queue.enqueue("mail", unique=Once(key="user:7"))
    queue.retry(first)
    assert queue.get(first).unique_key is None
    assert queue.enqueue("mail", unique=Once(key="user:7")) == second


def test_simultaneous_enqueues_with_the_same_unique_key_add_one_job(
    url: str, queue: JobQueue, connection: Connection[Any]
) -> None:
    barrier = threading.Barrier(8)

    def enqueue(_: int) -> Any:
        barrier.wait()
        return queue.enqueue("mail", unique=Once(key="user:7"))

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(enqueue, range(8)))) == 1


def test_a_second_enqueue_waits_for_the_transaction_of_the_first(queue: JobQueue, connect: Connect) -> None:
    for commits in (True, False):
        first = connect(autocommit=False)
        row = first.execute("select enqueue_unique('mail', 'user:7')").fetchone()
        assert row
        with ThreadPoolExecutor(1) as thread:
            second = thread.submit(queue.enqueue, "mail", unique=Once(key="user:7"), priority=150)
            until_waiting_for_lock(connect())
            first.commit() if commits else first.rollback()
            assert (second.result(30) == row[0]) is commits
            assert queue.get(second.result()).priority == (100 if commits else 150)
            queue.cancel(second.result())


@pytest.fixture
def barrier_after_insert(connection: Connection[Any]) -> Iterator[Barrier]:
    """A barrier after each insert, also after one that added no row, unless test.pass is set."""
    barrier = Barrier(connection)
    connection.execute(
        """create function public.stop() returns trigger language plpgsql as $$ begin
        perform public.pass_barrier(); return null; end $$"""
    )
    connection.execute(
        """create trigger stop after insert on jobs for each statement
        when (current_setting('test.pass', true) is distinct from 'on') execute function public.stop()"""
    )
    yield barrier
    connection.execute("drop trigger stop on jobs; drop function public.stop, public.pass_barrier")


def test_a_job_that_finishes_after_the_insert_is_not_returned(
    queue: JobQueue, connect: Connect, barrier_after_insert: Barrier
) -> None:
    adding = connect(autocommit=False)
    adding.execute("set local test.pass = 'on'")
    row = adding.execute("select enqueue_unique('mail', 'user:7')").fetchone()
    assert row
    with ThreadPoolExecutor(1) as thread:
        second = thread.submit(queue.enqueue, "mail", unique=Once(key="user:7"))
        until_waiting_for_lock(connect())
        adding.commit()
        barrier_after_insert.wait_until_reached()
        queue.cancel(row[0])
        barrier_after_insert.open()
        added = queue.get(second.result(30))
    assert added.id != row[0]
    finished_at = queue.get(row[0]).finished_at
    assert finished_at is not None
    assert added.created_at > finished_at, "it has the time of the insert that added no row"


def test_unique_keys_of_different_types_do_not_conflict(queue: JobQueue) -> None:
    ids = {job_type: queue.enqueue(job_type, unique=Once(key="user:7")) for job_type in ("mail", "invoice", "reminder")}
    for job_type, job_id in ids.items():
        assert queue.enqueue(job_type, unique=Once(key="user:7")) == job_id
    queue.cancel(ids["mail"])
    queue.retry(ids["mail"])
    assert queue.get(ids["mail"]).unique_key == "user:7", "it lost its unique key to a job of another type"


def test_a_run_at_in_the_past_becomes_the_present(queue: JobQueue) -> None:
    row = queue.get(queue.enqueue("mail", unique=Once(key="user:7"), run_at=datetime(2001, 1, 1, tzinfo=UTC)))
    assert row.run_at == row.created_at


@pytest.mark.parametrize("call", ["enqueue_unique('mail', 'user:7')", "enqueue_jobs('mail', '{1}')"])
def test_an_enqueue_gets_its_transaction_id_before_it_reads_the_clock(connection: Connection[Any], call: str) -> None:
    """The tick relies on this order. The time of a new job is read before its insert begins."""
    connection.execute(
        """create function public.ask() returns trigger language plpgsql as $$ begin
        perform set_config('test.number', coalesce(pg_current_xact_id_if_assigned()::text, 'none'), false);
        return null; end $$"""
    )
    connection.execute("create trigger ask before insert on jobs for each statement execute function public.ask()")
    try:
        connection.execute(f"select {call}".encode())
        assert connection.execute("select current_setting('test.number')").fetchone() != ("none",)
    finally:
        connection.execute("drop trigger ask on jobs; drop function public.ask")


def test_a_unique_job_has_its_priority_queue_time_and_key(queue: JobQueue) -> None:
    first = queue.enqueue("mail", key="ada")
    later = queue.enqueue("mail", unique=Once(key="a"), key="ada", priority=150, queue="slow", retry=Retries(6))
    row = queue.get(later)
    assert (row.key, row.holds, row.priority, row.queue, row.max_attempts) == ("ada", 1, 150, "slow", 7)
    delayed = queue.get(queue.enqueue("mail", unique=Once(key="b"), delay="1h"))
    assert (delayed.run_at - delayed.created_at).total_seconds() == 3600
    assert [job.id for job in queue.claim(["mail"])] == [first]


def test_using_sets_the_unique_key_of_a_job_function(app: Treadle) -> None:
    @app.job
    def welcome(user_id: int) -> None: ...

    first = welcome.using(unique=Once(key="user:7")).enqueue(user_id=7)
    assert welcome.using(unique=Once(key="user:7")).enqueue(user_id=8).id == first.id
    with pytest.raises(InvalidArgument, match="key must be a string of 1 to 200 characters"):
        welcome.using(unique=Once(key="")).enqueue(user_id=1)


def test_a_job_is_retried_while_its_successor_is_being_added(queue: JobQueue, connect: Connect) -> None:
    """The successor is not visible yet, so the unique index decides."""
    first = queue.enqueue("mail", unique=Once(key="user:7"))
    queue.cancel(first)
    adding = connect(autocommit=False)
    adding.execute("select enqueue_unique('mail', 'user:7')")
    with ThreadPoolExecutor(1) as thread:
        retry = thread.submit(queue.retry, first)
        until_waiting_for_lock(connect())
        adding.commit()
        retry.result(30)
    assert (queue.get(first).status, queue.get(first).unique_key) == ("pending", None)
    assert count(connect(), "unique_key = 'user:7'") == 1
