"""Unique jobs against claims, ends, rollbacks and each other, in forced orders."""

from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.waiting import Barrier, until_waiting_for_lock
from treadle import Debounce, JobQueue, Once, Status, Throttle

PENDING = """select id, is_new from enqueue_with_options(
    'sync', '{1}', '{"unique_keys": ["acme"], "unique_while": "pending"}')"""
REPLACE = """select id, is_changed from enqueue_with_options('sync', array['{"n": 2}'], jsonb_build_object(
    'unique_keys', '{acme}'::text[], 'unique_while', 'pending',
    'on_conflict', '{replace,reschedule}'::text[], 'delay', %s::text))"""


def test_a_pending_job_that_was_returned_does_not_begin_before_the_caller_commits(
    queue: JobQueue, connect: Connect
) -> None:
    job_id = queue.enqueue("sync", unique=Once(key="acme", while_pending=True))
    callers = [connect(autocommit=False), connect(autocommit=False)]
    for caller in callers:
        assert caller.execute(PENDING).fetchone() == (job_id, False), "two callers do not wait for each other"
    assert queue.claim(["sync"]) == []
    callers[0].commit()
    assert queue.claim(["sync"]) == []
    callers[1].rollback()
    assert [job.id for job in queue.claim(["sync"])] == [job_id]


def test_a_caller_waits_for_a_claim_and_adds_the_next_job(queue: JobQueue, connect: Connect) -> None:
    job_id = queue.enqueue("sync", unique=Once(key="acme", while_pending=True))
    claiming = connect(autocommit=False)
    assert claiming.execute("select id from claim_job_batch('me', '{sync}')").fetchone() == (job_id,)
    with ThreadPoolExecutor(1) as thread:
        second = thread.submit(queue.enqueue, "sync", unique=Once(key="acme", while_pending=True))
        until_waiting_for_lock(connect())
        claiming.commit()
        assert second.result(30) != job_id


def test_a_caller_gets_the_job_back_whose_claim_was_rolled_back(queue: JobQueue, connect: Connect) -> None:
    job_id = queue.enqueue("sync", unique=Once(key="acme", while_pending=True))
    claiming = connect(autocommit=False)
    claiming.execute("select claim_job_batch('me', '{sync}')")
    with ThreadPoolExecutor(1) as thread:
        second = thread.submit(queue.enqueue, "sync", unique=Once(key="acme", while_pending=True))
        until_waiting_for_lock(connect())
        claiming.rollback()
        assert second.result(30) == job_id


def test_debounce_against_a_claim(queue: JobQueue, connect: Connect) -> None:
    """Either the claim gets the new arguments, or they get a job of their own: they are never lost."""
    job_id = queue.enqueue("sync", {"n": 1}, unique=Once(key="acme", while_pending=True))
    replacing = connect(autocommit=False)
    assert replacing.execute(REPLACE, ["0"]).fetchone() == (job_id, True)
    assert queue.claim(["sync"]) == []
    replacing.commit()
    assert [job.data for job in queue.claim(["sync"])] == [{"n": 2}]

    next_id = queue.enqueue("sync", {"n": 1}, unique=Once(key="acme", while_pending=True))
    assert next_id != job_id
    claiming = connect(autocommit=False)
    claiming.execute("select claim_job_batch('me', '{sync}')")
    with ThreadPoolExecutor(1) as thread:
        call = thread.submit(queue.enqueue, "sync", {"n": 3}, unique=Debounce("1s", key="acme"))
        until_waiting_for_lock(connect())
        claiming.commit()
        last_id = call.result(30)
    assert last_id != next_id
    assert (queue.get(next_id).data, queue.get(last_id).data) == ({"n": 1}, {"n": 3})


def test_two_callers_that_replace_do_so_one_after_the_other(queue: JobQueue, connect: Connect) -> None:
    job_id = queue.enqueue("sync", {"n": 1}, unique=Once(key="acme", while_pending=True))
    replacing = connect(autocommit=False)
    replacing.execute(REPLACE, ["1h"])
    with ThreadPoolExecutor(1) as thread:
        later = thread.submit(
            queue.enqueue,
            "sync",
            {"n": 3},
            unique=Once(key="acme", while_pending=True, on_conflict=["replace", "reschedule"]),
        )
        until_waiting_for_lock(connect())
        replacing.commit()
        assert later.result(30) == job_id
    assert [job.data for job in queue.claim(["sync"])] == [{"n": 3}]


def test_a_caller_does_not_wait_for_the_transaction_that_ends_the_job(queue: JobQueue, connect: Connect) -> None:
    job_id = queue.enqueue("sync", unique=Once(key="acme"))
    (job,) = queue.claim(["sync"])
    ending = connect(autocommit=False)
    ending.execute("select complete_job(%s, null, %s, %s)", [job.id, job.lease, job.worker_id])
    hurried = connect()
    hurried.execute("set lock_timeout = '1s'")
    assert hurried.execute("select enqueue_unique('sync', 'acme')").fetchone() == (job_id,), "it is unfinished so far"
    ending.commit()
    row = hurried.execute("select enqueue_unique('sync', 'acme')").fetchone()
    assert row
    assert row[0] != job_id


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_an_older_snapshot_never_returns_a_job_that_has_finished(queue: JobQueue, connect: Connect, level: str) -> None:
    first = queue.enqueue("sync", unique=Once(key="acme"))
    caller = connect(autocommit=False)
    caller.execute(f"set transaction isolation level {level}".encode())
    caller.execute("select 1")
    queue.cancel(first)
    row = caller.execute("select enqueue_unique('sync', 'acme')").fetchone()
    assert row
    assert row[0] != first
    caller.commit()
    assert queue.get(row[0]).status == Status.PENDING


def test_an_older_snapshot_that_cannot_see_the_job_is_told_to_try_again(queue: JobQueue, connect: Connect) -> None:
    caller = connect(autocommit=False)
    caller.execute("set transaction isolation level repeatable read")
    caller.execute("select 1")
    queue.enqueue("sync", unique=Once(key="acme"))
    with pytest.raises(psycopg.errors.SerializationFailure):
        caller.execute("select enqueue_unique('sync', 'acme')")


THROTTLED = """select id from enqueue_with_options(
    'sync', '{1}', jsonb_build_object('unique_keys', array[%s]::text[], 'period', '1 hour', 'per_period', %s::int))"""


def test_throttled_callers_go_one_after_the_other(queue: JobQueue, connect: Connect) -> None:
    for commits in (True, False):
        text = f"tenant-{commits}"
        queue.enqueue("sync", unique=Throttle(2, "1h", key=text))
        first = connect(autocommit=False)
        row = first.execute(THROTTLED, [text, 2]).fetchone()
        assert row
        with ThreadPoolExecutor(1) as thread:
            second = thread.submit(queue.enqueue, "sync", unique=Throttle(2, "1h", key=text))
            until_waiting_for_lock(connect())
            first.commit() if commits else first.rollback()
            assert (second.result(30) == row[0]) is commits


def test_a_period_is_removed_just_before_a_caller_locks_it(
    queue: JobQueue, connection: Connection[Any], connect: Connect
) -> None:
    queue.enqueue("sync", unique=Once(key="acme", per="1h"))
    barrier = Barrier(connection)
    connection.execute(
        """create function public.stop() returns trigger language plpgsql as $$ begin
        perform public.pass_barrier(); return null; end $$;
        create trigger stop after insert on unique_periods for each statement
        when (current_setting('test.pass', true) is distinct from 'on') execute function public.stop()"""
    )
    try:
        with ThreadPoolExecutor(1) as thread:
            second = thread.submit(queue.enqueue, "sync", unique=Once(key="acme", per="1h"))
            barrier.wait_until_reached()
            other = connect(autocommit=False)
            other.execute("delete from unique_periods")
            other.commit()
            other.execute("set test.pass = 'on'")
            row = other.execute(THROTTLED, ["acme", 1]).fetchone()
            assert row
            barrier.open()
            until_waiting_for_lock(connect())
            other.commit()
            assert second.result(30) == row[0]
    finally:
        connection.execute("drop trigger stop on unique_periods; drop function public.stop, public.pass_barrier")


def test_a_batch_takes_its_unique_keys_in_their_order(queue: JobQueue, connect: Connect) -> None:
    """Otherwise the batch would have added z, and wait for a; the other transaction would wait for z: a deadlock."""
    other = connect(autocommit=False)
    other.execute("select enqueue_unique('sync', 'a')")
    with ThreadPoolExecutor(1) as thread:
        batch = "select id from enqueue_with_options('sync', '{1,2}', '{\"unique_keys\": [\"z\", \"a\"]}')"
        later = thread.submit(lambda: connect().execute(batch).fetchall())
        until_waiting_for_lock(connect())
        row = other.execute("select enqueue_unique('sync', 'z')").fetchone()
        other.commit()
        assert later.result(30)[0] == row


@pytest.mark.parametrize(
    "unique", [Once("n"), Once("n", while_pending=True, on_conflict="replace"), Once("n", per="1ms")]
)
def test_batches_in_opposite_orders_do_not_deadlock(queue: JobQueue, unique: Once) -> None:
    texts = [f"{n:03}" for n in range(200)]

    def enqueue(seed: int) -> None:
        shuffled = Random(seed).sample(texts, len(texts))
        for _ in range(5):
            queue.enqueue_many("sync", [{"n": text} for text in shuffled], unique=unique)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(enqueue, range(4)))
    assert {job.data["n"] for job in queue.claim(["sync"], 10_000)} == set(texts)


def test_the_rows_of_a_lost_insert_are_not_in_the_result(queue: JobQueue, connection: Connection[Any]) -> None:
    """Half of the keys exist: each call gets exactly one row, in order."""
    there = queue.enqueue_many("sync", [{"n": n} for n in range(0, 100, 2)], unique=Once("n"))
    ids = queue.enqueue_many("sync", [{"n": n} for n in range(100)], unique=Once("n"))
    assert ids[::2] == there
    assert [queue.get(each).data for each in ids[:5]] == [{"n": n} for n in range(5)]
    assert len(set(ids)) == 100
