"""Of the live jobs of a type, one at most has a given unique text."""

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
from treadle import InvalidArgument, JobQueue, Treadle


def test_a_second_one_is_the_first(queue: JobQueue) -> None:
    first = queue.enqueue("mail", {"n": 1}, unique="user:7")
    assert queue.enqueue("mail", {"n": 2}, unique="user:7", delay="1h") == first
    assert asyncio.run(_enqueue(queue, "user:7")) == first
    assert queue.enqueue("mail", unique="user:8") != first
    assert queue.enqueue("invoice", unique="user:7") != first
    assert queue.enqueue("mail") != first
    row = queue.get(first)
    assert (row.data, row.unique_key) == ({"n": 1}, "user:7")


async def _enqueue(queue: JobQueue, unique: str) -> Any:
    try:
        return await queue.aenqueue("mail", unique=unique)
    finally:
        await queue.aclose()


def test_it_is_free_again_when_the_first_has_ended(queue: JobQueue) -> None:
    for end in (queue.complete, lambda job: queue.fail(job, "broken", final=True), queue.cancel):
        first = queue.enqueue("mail", unique="user:7")
        (job,) = queue.claim(["mail"])
        queue.start(job)
        assert queue.enqueue("mail", unique="user:7") == first
        end(job)
        second = queue.enqueue("mail", unique="user:7")
        assert second != first
        queue.cancel(second)


def test_a_failed_attempt_keeps_it(queue: JobQueue) -> None:
    first = queue.enqueue("mail", unique="user:7")
    (job,) = queue.claim(["mail"])
    queue.fail(job, "broken", delay="1h")
    assert queue.enqueue("mail", unique="user:7") == first


def test_a_job_that_is_revived_beside_its_successor_gives_its_text_up(queue: JobQueue) -> None:
    first = queue.enqueue("mail", unique="user:7")
    queue.cancel(first)
    queue.retry(first)
    assert queue.enqueue("mail", unique="user:7") == first
    queue.cancel(first)
    second = queue.enqueue("mail", unique="user:7")
    queue.retry(first)
    assert queue.get(first).unique_key is None
    assert queue.enqueue("mail", unique="user:7") == second


def test_many_at_once_add_one(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    barrier = threading.Barrier(8)

    def enqueue(_: int) -> Any:
        barrier.wait()
        return queue.enqueue("mail", unique="user:7")

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(enqueue, range(8)))) == 1


def test_who_comes_second_waits_for_the_first_transaction(queue: JobQueue, connect: Connect) -> None:
    for commits in (True, False):
        first = connect(autocommit=False)
        row = first.execute("select enqueue_unique('mail', 'user:7')").fetchone()
        assert row
        with ThreadPoolExecutor(1) as thread:
            second = thread.submit(queue.enqueue, "mail", unique="user:7")
            until_waiting_for_lock(connect())
            first.commit() if commits else first.rollback()
            assert (second.result(30) == row[0]) is commits
            queue.cancel(second.result())


@pytest.fixture
def after_the_attempt(connection: Connection[Any]) -> Iterator[Barrier]:
    """Stands behind each insert, also one that added nothing."""
    barrier = Barrier(connection)
    connection.execute(
        """create function public.stop() returns trigger language plpgsql as $$ begin
        perform public.pass_barrier(); return null; end $$"""
    )
    connection.execute("create trigger stop after insert on jobs for each statement execute function public.stop()")
    yield barrier
    connection.execute("drop trigger stop on jobs; drop function public.stop, public.pass_barrier")


def test_one_that_ends_while_it_is_looked_up_is_not_the_answer(
    queue: JobQueue, connection: Connection[Any], request: pytest.FixtureRequest
) -> None:
    first = queue.enqueue("mail", unique="user:7")
    barrier: Barrier = request.getfixturevalue("after_the_attempt")
    with ThreadPoolExecutor(1) as thread:
        second = thread.submit(queue.enqueue, "mail", unique="user:7")
        barrier.wait_until_reached()
        queue.cancel(first)
        barrier.open()
        added = queue.get(second.result(30))
    assert added.id != first
    ended = queue.get(first).finished_at
    assert ended is not None
    assert added.created_at > ended, "the time of the attempt that added nothing"


def test_another_type_with_the_same_text_is_not_the_answer(queue: JobQueue) -> None:
    ids = {job_type: queue.enqueue(job_type, unique="user:7") for job_type in ("mail", "invoice", "reminder")}
    for job_type, job_id in ids.items():
        assert queue.enqueue(job_type, unique="user:7") == job_id
    queue.cancel(ids["mail"])
    queue.retry(ids["mail"])
    assert queue.get(ids["mail"]).unique_key == "user:7", "it was given up for the sake of another type"


def test_a_time_in_the_past_is_now(queue: JobQueue) -> None:
    row = queue.get(queue.enqueue("mail", unique="user:7", run_at=datetime(2001, 1, 1, tzinfo=UTC)))
    assert row.run_at == row.created_at


@pytest.mark.parametrize("call", ["enqueue_unique('mail', 'user:7')", "enqueue_jobs('mail', '{1}')"])
def test_the_number_of_the_transaction_is_had_before_the_clock_is_read(connection: Connection[Any], call: str) -> None:
    """The tick relies on that order. The time of a new job has been read when its insert begins."""
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


def test_it_keeps_its_place_time_and_key(queue: JobQueue) -> None:
    held = queue.enqueue("mail", key="ada")
    later = queue.enqueue("mail", unique="a", key="ada", priority=150, queue="slow", max_attempts=7)
    row = queue.get(later)
    assert (row.key, row.holds, row.priority, row.queue, row.max_attempts) == ("ada", 1, 150, "slow", 7)
    delayed = queue.get(queue.enqueue("mail", unique="b", delay="1h"))
    assert (delayed.run_at - delayed.created_at).total_seconds() == 3600
    assert [job.id for job in queue.claim(["mail"])] == [held]


def test_using(app: Treadle) -> None:
    @app.job
    def welcome(user_id: int) -> None: ...

    first = welcome.using(unique="user:7").enqueue(user_id=7)
    assert welcome.using(unique="user:7").enqueue(user_id=8).id == first.id
    with pytest.raises(InvalidArgument, match="unique cannot be used with enqueue_many"):
        welcome.using(unique="user:7").enqueue_many([{"user_id": 1}])
    with pytest.raises(InvalidArgument, match="unique must be a text of 1 to 200 characters"):
        welcome.using(unique="").enqueue(user_id=1)


def test_reviving_a_job_while_its_successor_is_being_added(queue: JobQueue, connect: Connect) -> None:
    """It cannot be seen yet, and the index refuses."""
    first = queue.enqueue("mail", unique="user:7")
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
