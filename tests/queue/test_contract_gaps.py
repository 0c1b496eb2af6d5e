"""The eight holes of the specification and how they are closed. The tests are in the order of this list.

1. recover_stale_jobs leaves a job without attempts left claimed.
2. A job is stale by the age of its claim, so every long job runs again.
3. complete and fail do not check the claim: a worker can finish a job that another worker runs now.
4. A claim scans the jobs of other types one by one.
5. A claim can take more jobs than its limit if the statistics are outdated.
6. A retry runs at once, and jobs cannot be delayed.
7. Random ids scatter the writes to the indexes.
8. Nothing cancels a running job or removes old rows. (Nothing wakes a worker: see tests/worker/test_waking.py.)

The tests after these are about jobs below the floor, where claims start because of hole 4.
"""

import threading
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.buffers import claim_buffers
from tests.support.waiting import make_tick_due
from tests.support.workers import until
from treadle import JobQueue, JobRow, LeaseLost, Retries, Status


def test_a_stale_job_without_attempts_left_fails_with_a_reason(queue: JobQueue, connection: Connection[Any]) -> None:
    job_id = queue.enqueue("resize", retry=Retries(0))
    queue.claim(["resize"])
    connection.execute("update jobs set claimed_at = now() - interval '1 hour'")
    assert queue.recover_stale_jobs("5m") == 1
    job = queue.get(job_id)
    assert (job.status, job.worker_id, job.crashes) == (Status.FAILED, None, 1)
    assert job.last_error == "worker worker-1 sent no heartbeat for 00:05:00 during the last attempt (1 of 1)"
    assert job.finished_at is not None


@pytest.mark.parametrize("sign", ["heartbeat", "progress"])
def test_a_long_job_whose_worker_is_alive_is_not_recovered(
    queue: JobQueue, connection: Connection[Any], sign: str
) -> None:
    queue.enqueue("resize")
    (job,) = queue.claim(["resize"])
    connection.execute("update jobs set claimed_at = now() - interval '1 day'")
    if sign == "heartbeat":
        queue.heartbeat()
    else:
        queue.progress(job, 5)
    assert queue.recover_stale_jobs("5m") == 0
    # The time counts from the last sign of life.
    connection.execute("update jobs set seen_at = seen_at - interval '6 minutes'")
    connection.execute("update workers set seen_at = seen_at - interval '6 minutes'")
    assert queue.recover_stale_jobs("5m") == 1


def test_a_suspended_worker_cannot_finish_a_job_that_another_worker_has_claimed(
    queue: JobQueue, other: JobQueue, connection: Connection[Any]
) -> None:
    job_id = queue.enqueue("resize")
    (suspended,) = queue.claim(["resize"])
    connection.execute("update jobs set claimed_at = now() - interval '1 hour'")
    other.recover_stale_jobs("5m")
    (current,) = other.claim(["resize"])
    with pytest.raises(LeaseLost):
        queue.complete(suspended)
    with pytest.raises(LeaseLost):
        queue.fail(suspended, "too late")
    assert other.get(job_id) == current
    other.complete(current)
    assert other.get(job_id).status == Status.COMPLETED


@pytest.mark.fresh_database
def test_a_claim_does_not_scan_jobs_of_other_types(connection: Connection[Any]) -> None:
    connection.execute("insert into jobs (job_type) values ('mine')")
    before = claim_buffers(connection, 1, tick=True)
    connection.execute(
        "insert into jobs (job_type, priority) select 'foreign', 100 + n % 3 from generate_series(1, 20000) as n"
    )
    # The indexes of 20,000 rows have one level more than those of one row; a scan would cost thousands of buffers.
    assert claim_buffers(connection, 1, tick=True) <= before + 12


def test_a_claim_keeps_its_limit_with_outdated_statistics(connection: Connection[Any]) -> None:
    connection.execute("insert into jobs (job_type, status) select 'old', 'completed' from generate_series(1, 20000)")
    connection.execute("analyze jobs")
    connection.execute("insert into jobs (job_type) select 'burst' from generate_series(1, 500)")
    rows = connection.execute("select id from claim_job_batch('w', '{burst}', 10)").fetchall()
    assert len(rows) == 10
    assert connection.execute("select count(*) from jobs where status = 'claimed'").fetchone() == (10,)


def test_each_retry_waits_longer_than_the_one_before(queue: JobQueue, connection: Connection[Any]) -> None:
    job_id = queue.enqueue("resize", retry=Retries(9))
    for attempt in range(1, 6):
        (job,) = queue.claim(["resize"])
        queue.fail(job, "no disk")
        assert queue.claim(["resize"]) == []
        row = connection.execute(
            "select extract(epoch from run_at - clock_timestamp()) from jobs where id = %s", [job_id]
        ).fetchone()
        assert row
        longest = 2 ** (attempt - 1)
        assert longest / 2 - 0.5 < row[0] <= longest
        connection.execute("update jobs set run_at = clock_timestamp()")


def test_a_delayed_job_is_not_claimed_before_its_time(queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("resize", delay="10m")
    row = connection.execute("select run_at - clock_timestamp() from jobs").fetchone()
    assert row
    assert timedelta(minutes=9, seconds=50) < row[0] <= timedelta(minutes=10)
    assert queue.claim(["resize"]) == []
    connection.execute("update jobs set run_at = clock_timestamp() - interval '1 second'")
    assert len(queue.claim(["resize"])) == 1


def test_job_ids_are_ordered_by_time(queue: JobQueue, connection: Connection[Any]) -> None:
    ids = [queue.enqueue("resize") for _ in range(20)]
    ids += queue.enqueue_many("resize", [{}] * 500)
    for _ in range(20):
        row = connection.execute("insert into jobs (job_type) values ('resize') returning id").fetchone()
        assert row
        ids.append(row[0])
    assert ids == sorted(ids)
    assert {job_id.version for job_id in ids} == {7}
    assert {job_id.variant for job_id in ids} == {"specified in RFC 4122"}


def test_a_running_job_can_be_cancelled(queue: JobQueue) -> None:
    job_id = queue.enqueue("resize")
    (job,) = queue.claim(["resize"])
    queue.start(job)
    queue.cancel(job_id, "not needed any more")
    with pytest.raises(LeaseLost):
        queue.progress(job, 50)
    cancelled = queue.get(job_id)
    assert (cancelled.status, cancelled.last_error) == (Status.CANCELLED, "not needed any more")


def test_old_jobs_are_pruned(queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue_many("resize", [{}] * 30)
    queue.complete_many(queue.claim(["resize"], 25))
    connection.execute(
        "update jobs set finished_at = now() - interval '8 days' where id in (select id from jobs"
        " where status = 'completed' limit 20)"
    )
    assert queue.prune("completed", "7d", batch_size=8) == 20
    assert queue.counts()[Status.COMPLETED] == 5
    assert queue.counts()[Status.PENDING] == 5


def test_pruning_skips_locked_rows_and_does_not_block_claims(queue: JobQueue, connect: Connect) -> None:
    queue.enqueue_many("resize", [{}] * 10)
    jobs = queue.claim(["resize"], 5)
    queue.complete_many(jobs)
    reader = connect(autocommit=False)
    reader.execute("select from jobs where id = %s for update", [jobs[0].id])
    pruner = connect(autocommit=False)
    pruner.execute("select prune_jobs('completed', '0')")
    assert len(queue.claim(["resize"], 10)) == 5
    pruner.commit()
    assert queue.counts()[Status.COMPLETED] == 1


def test_a_late_commit_below_the_floor_is_found(queue: JobQueue, connect: Connect) -> None:
    late = connect(autocommit=False)
    late.execute("insert into jobs (job_type) values ('resize')")
    _move_the_floor_past_existing_jobs(queue, connect())
    late.commit()
    assert len(until(lambda: queue.claim(["resize"]), seconds=10)) == 1


@pytest.mark.parametrize("seconds", [-1, 3600])
def test_a_late_commit_is_found_without_further_ticks(queue: JobQueue, connect: Connect, seconds: int) -> None:
    late = connect(autocommit=False)
    late.execute("insert into jobs (job_type) values ('resize')")
    connection = connect()
    _move_the_floor_past_existing_jobs(queue, connection)
    # The last tick was long ago, or the clock was set back: a claim through plain SQL must not trust the floor then.
    connection.execute("select setval('tick_clock', last_value + %s * 1000000::bigint) from tick_clock", [seconds])
    late.commit()
    assert len(connection.execute("select from claim_job_batch('w', '{resize}')").fetchall()) == 1


@pytest.mark.parametrize("late_is", ["a new job", "a released job"])
def test_a_job_is_found_however_long_its_transaction_was_open(queue: JobQueue, connect: Connect, late_is: str) -> None:
    late, connection = connect(autocommit=False), connect()
    queue.enqueue("resize")
    (claimed,) = queue.claim(["resize"])
    if late_is == "a new job":
        late.execute("insert into jobs (job_type) values ('resize')")
    else:
        late.execute("select release_job(%s)", [claimed.id])
    for _ in range(5):
        _move_the_floor_past_existing_jobs(queue, connection)
    # Ticks no longer search the lanes from their beginning: they must know from which floor on to search.
    connection.execute("update ticks set sweep_after = 'infinity'")
    late.commit()
    connection.execute("select tick('0')")
    assert len(connection.execute("select from claim_job_batch('w', '{resize}')").fetchall()) == 1


def test_a_retried_and_a_snoozed_job_are_found_below_the_floor(queue: JobQueue, connect: Connect) -> None:
    queue.enqueue_many("resize", [{}] * 2)
    failing, snoozing = queue.claim(["resize"])
    _move_the_floor_past_existing_jobs(queue, connect())
    queue.fail(failing, "again", delay=0)
    queue.snooze(snoozing, "10ms")
    found: list[JobRow] = []
    until(lambda: found.extend(queue.claim(["resize"])) or len(found) >= 2, seconds=10)  # type: ignore[func-returns-value]
    assert {job.id for job in found} == {failing.id, snoozing.id}


def test_an_uncommitted_new_lane_blocks_no_other_enqueue(queue: JobQueue, connect: Connect) -> None:
    late = connect(autocommit=False)
    late.execute("insert into jobs (job_type) values ('brand-new')")
    done = threading.Event()

    def enqueue() -> None:
        queue.enqueue("brand-new")
        done.set()

    thread = threading.Thread(target=enqueue)
    thread.start()
    assert done.wait(10), "an enqueue waited for the open transaction of another client"
    thread.join()
    assert len(queue.claim(["brand-new"])) == 1
    late.commit()
    make_tick_due(late)
    assert len(queue.claim(["brand-new"])) == 1


def _move_the_floor_past_existing_jobs(queue: JobQueue, connection: Connection[Any]) -> None:
    """Enqueue and complete jobs until the lane's floor is above all jobs that existed before."""
    row = connection.execute("select clock_timestamp()").fetchone()
    assert row
    while connection.execute("select max(floor) > %s from floors", row).fetchone() != (True,):
        queue.enqueue_many("resize", [{}] * 10)
        queue.complete_many(queue.claim(["resize"]))
        connection.execute("select tick('0')")
