"""Jobs that expire: those that no worker has claimed in time are cancelled, and cost claims nothing."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.workers import count
from treadle import JobCancelled, JobQueue, Once, Status, Treadle

PASSED = "update jobs set expires_at = clock_timestamp() - interval '1 second' where expires_at is not null"


def expire(connection: Connection[Any]) -> int:
    connection.execute(PASSED)
    connection.execute("update expiries set look_at = clock_timestamp() - interval '1 second'")
    row = connection.execute("select expire_jobs()").fetchone()
    assert row
    return int(row[0])


def test_a_job_that_no_worker_has_claimed_in_time_is_cancelled(app: Treadle, connection: Connection[Any]) -> None:
    @app.job(expires="10m")
    def notify(user_id: int) -> None: ...

    handle = notify.enqueue(7)
    row = handle.job()
    assert row.expires_at == row.run_at + timedelta(minutes=10)
    assert connection.execute("select expire_jobs()").fetchone() == (0,)
    assert expire(connection) == 1
    assert handle.status() == Status.CANCELLED
    with pytest.raises(JobCancelled, match=r"expired: no worker claimed it before 20.* UTC"):
        handle.result(timeout=1)
    assert connection.execute("select count(*) from expiries").fetchone() == (0,)


def test_expiry_is_counted_from_when_the_job_is_due(queue: JobQueue) -> None:
    row = queue.get(queue.enqueue("a", delay="2h", expires="10m"))
    assert row.expires_at == row.run_at + timedelta(minutes=10)
    at = datetime.now(UTC) + timedelta(days=1)
    assert queue.get(queue.enqueue("a", expires=at)).expires_at == at
    assert [queue.get(each).expires_at for each in queue.enqueue_many("a", [1, 2], expires=at)] == [at, at]


def test_a_job_that_was_claimed_in_time_does_not_expire(queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("a", expires="10m")
    (job,) = queue.claim(["a"])
    assert expire(connection) == 1
    queue.fail(job, "broken", delay="0s")
    assert [each.id for each in queue.claim(["a"])] == [job.id]


def test_a_retry_by_hand_does_not_expire_again(queue: JobQueue, connection: Connection[Any]) -> None:
    job_id = queue.enqueue("a", expires="10m")
    expire(connection)
    queue.retry(job_id)
    assert [each.id for each in queue.claim(["a"])] == [job_id]


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_claim_cancels_the_expired_jobs_that_it_meets(
    queue: JobQueue, connection: Connection[Any], lanes: int
) -> None:
    types = [f"type{n}" for n in range(lanes)]
    for job_type in types:
        queue.enqueue_many(job_type, range(30), expires="10m")
    connection.execute(PASSED)
    fresh = [queue.enqueue(job_type) for job_type in types]
    assert {job.id for job in queue.claim(types, 10)} == set(fresh)
    assert count(connection, "status = 'cancelled'") >= 30 if lanes == 1 else True
    assert count(connection, "status = 'claimed'") == lanes


def test_an_expired_job_unblocks_the_next_of_its_key(queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("a", key="k", expires="10m")
    second = queue.enqueue("a", key="k")
    connection.execute(PASSED)
    assert [job.id for job in queue.claim(["a"]) + queue.claim(["a"])] == [second]


def test_many_expired_jobs_do_not_hold_up_a_claim(queue: JobQueue, connection: Connection[Any]) -> None:
    """A claim cancels a bounded number of them; the next one goes on."""
    queue.enqueue_many("a", range(600), expires="10m")
    connection.execute(PASSED)
    fresh = queue.enqueue("a")
    assert queue.claim(["a"], 10) == []
    assert 100 <= count(connection, "status = 'cancelled'") <= 250
    for _ in range(6):
        if claimed := queue.claim(["a"], 10):
            break
    assert [job.id for job in claimed] == [fresh]
    assert count(connection, "status = 'cancelled'") == 600


def test_a_job_that_is_locked_expires_later(queue: JobQueue, connection: Connection[Any], connect: Connect) -> None:
    locked, other = queue.enqueue("a", expires="10m"), queue.enqueue("a", expires="10m")
    connection.execute(PASSED)
    holder = connect(autocommit=False)
    holder.execute("select from jobs where id = %s for share", [locked])
    connection.execute("update expiries set look_at = clock_timestamp()")
    connection.execute("set lock_timeout = '5s'")
    assert connection.execute("select expire_jobs()").fetchone() == (2,)
    assert (queue.get(locked).status, queue.get(other).status) == (Status.PENDING, Status.CANCELLED)
    holder.rollback()
    connection.execute("update expiries set look_at = clock_timestamp()")
    assert connection.execute("select expire_jobs()").fetchone() == (1,)
    assert queue.get(locked).status == Status.CANCELLED


def test_replacing_a_job_gives_it_the_new_expiry(queue: JobQueue, connection: Connection[Any]) -> None:
    job_id = queue.enqueue("a", unique=Once(key="u"), expires="10m")
    queue.enqueue("a", unique=Once(key="u", on_conflict="replace"), expires="20m")
    connection.execute("update expiries set look_at = clock_timestamp() where look_at < now() + interval '15 minutes'")
    assert connection.execute("select expire_jobs()").fetchone() == (1,)
    assert queue.get(job_id).status == Status.PENDING
    expire(connection)
    assert queue.get(job_id).status == Status.CANCELLED


@pytest.mark.parametrize("on_conflict", ["keep", "replace"])
def test_a_call_is_not_answered_with_a_job_that_has_expired(
    queue: JobQueue, connection: Connection[Any], on_conflict: Any
) -> None:
    for while_pending in (True, False):
        unique = Once(key=str(while_pending), while_pending=while_pending, on_conflict=on_conflict)
        first = queue.enqueue("a", unique=unique, expires="10m")
        connection.execute(PASSED)
        second = queue.enqueue("a", unique=unique, expires="1h")
        assert (queue.get(first).status, second != first) == (Status.CANCELLED, True)
        assert [job.id for job in queue.claim(["a"])] == [second]


def test_the_expiry_moves_with_the_time(queue: JobQueue, connection: Connection[Any]) -> None:
    job_id = queue.enqueue("a", unique=Once(key="u"), expires="10m")
    queue.enqueue("a", unique=Once(key="u", on_conflict="reschedule"), delay="1h")
    row = queue.get(job_id)
    assert row.expires_at == row.run_at + timedelta(minutes=10)
    expire(connection)
    assert queue.get(job_id).status == Status.CANCELLED
