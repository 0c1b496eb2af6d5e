"""The holes of the specification, each closed; the tests are named after them, in its order."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.buffers import claim_buffers
from tests.support.waiting import tick_is_due, until_settled
from tests.support.workers import until
from treadle import JobQueue, JobRow, LeaseLost, Status


def test_hole_1_a_stale_job_with_no_attempts_left_ends_as_failed_with_a_reason(
    queue: JobQueue, connection: Connection[Any]
) -> None:
    job_id = queue.enqueue("resize", max_attempts=1)
    queue.claim(["resize"])
    connection.execute("update jobs set claimed_at = now() - interval '1 hour'")
    assert queue.recover_stale_jobs("5m") == 1
    job = queue.get(job_id)
    assert (job.status, job.worker_id, job.crashes) == (Status.FAILED, None, 1)
    assert job.last_error == "worker worker-1 sent no heartbeat for 00:05:00 during the last attempt (1 of 1)"
    assert job.finished_at is not None


@pytest.mark.parametrize("sign", ["heartbeat", "progress"])
def test_hole_2_a_long_job_that_is_alive_is_not_recovered(
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
    # The silence counts from the last sign of life.
    connection.execute("update jobs set seen_at = seen_at - interval '6 minutes'")
    connection.execute("update workers set seen_at = seen_at - interval '6 minutes'")
    assert queue.recover_stale_jobs("5m") == 1


def test_hole_3_a_paused_worker_cannot_finish_a_job_that_another_now_runs(
    queue: JobQueue, other: JobQueue, connection: Connection[Any]
) -> None:
    job_id = queue.enqueue("resize")
    (paused,) = queue.claim(["resize"])
    connection.execute("update jobs set claimed_at = now() - interval '1 hour'")
    other.recover_stale_jobs("5m")
    (current,) = other.claim(["resize"])
    with pytest.raises(LeaseLost):
        queue.complete(paused)
    with pytest.raises(LeaseLost):
        queue.fail(paused, "too late")
    assert other.get(job_id) == current
    other.complete(current)
    assert other.get(job_id).status == Status.COMPLETED


def test_hole_4_a_wall_of_other_types_is_not_scanned(connection: Connection[Any]) -> None:
    connection.execute("insert into jobs (job_type) values ('mine')")
    before = claim_buffers(connection, 1)
    connection.execute(
        "insert into jobs (job_type, priority) select 'foreign', 100 + n % 3 from generate_series(1, 20000) as n"
    )
    # A table of a row has flat indexes, one of 20,000 a level more; a scan would cost thousands.
    assert claim_buffers(connection, 1) <= before + 12


def test_hole_5_never_more_than_the_limit_with_stale_statistics(connection: Connection[Any]) -> None:
    connection.execute("insert into jobs (job_type, status) select 'old', 'completed' from generate_series(1, 20000)")
    connection.execute("analyze jobs")
    connection.execute("insert into jobs (job_type) select 'burst' from generate_series(1, 500)")
    rows = connection.execute("select id from claim_job_batch('w', '{burst}', 10)").fetchall()
    assert len(rows) == 10
    assert connection.execute("select count(*) from jobs where status = 'claimed'").fetchone() == (10,)


def test_hole_6_a_retry_waits_longer_each_time(queue: JobQueue, connection: Connection[Any]) -> None:
    job_id = queue.enqueue("resize", max_attempts=10)
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


def test_hole_6_a_job_can_be_delayed_or_given_a_time(queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("resize", delay="10m")
    row = connection.execute("select run_at - clock_timestamp() from jobs").fetchone()
    assert row
    assert timedelta(minutes=9, seconds=50) < row[0] <= timedelta(minutes=10)
    assert queue.claim(["resize"]) == []
    connection.execute("update jobs set run_at = clock_timestamp() - interval '1 second'")
    assert len(queue.claim(["resize"])) == 1


def test_hole_7_ids_are_ordered_by_time(queue: JobQueue, connection: Connection[Any]) -> None:
    ids = [queue.enqueue("resize") for _ in range(20)]
    ids += queue.enqueue_many("resize", [{}] * 500)
    for _ in range(20):
        row = connection.execute("insert into jobs (job_type) values ('resize') returning id").fetchone()
        assert row
        ids.append(row[0])
    assert ids == sorted(ids)
    assert {job_id.version for job_id in ids} == {7}
    assert {job_id.variant for job_id in ids} == {"specified in RFC 4122"}


def test_hole_8_a_running_job_can_be_cancelled(queue: JobQueue) -> None:
    job_id = queue.enqueue("resize")
    (job,) = queue.claim(["resize"])
    queue.start(job)
    queue.cancel(job_id, "not needed any more")
    with pytest.raises(LeaseLost):
        queue.progress(job, 50)
    ended = queue.get(job_id)
    assert (ended.status, ended.last_error) == (Status.CANCELLED, "not needed any more")


def test_hole_8_old_rows_are_removed(queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue_many("resize", [{}] * 30)
    queue.complete_many(queue.claim(["resize"], 25))
    connection.execute(
        "update jobs set finished_at = now() - interval '8 days' where id in (select id from jobs"
        " where status = 'completed' limit 20)"
    )
    assert queue.prune("completed", "7d", batch_size=8) == 20
    assert queue.counts()[Status.COMPLETED] == 5
    assert queue.counts()[Status.PENDING] == 5


def test_pruning_passes_over_locked_rows_and_blocks_no_claim(queue: JobQueue, connect: Connect) -> None:
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


def test_a_late_commit_below_the_floor_is_found_within_a_second(queue: JobQueue, connect: Connect) -> None:
    late = connect(autocommit=False)
    late.execute("insert into jobs (job_type) values ('resize')")
    _work_until_the_floor_has_passed(queue, connect())
    late.commit()
    assert len(until(lambda: queue.claim(["resize"]), seconds=10)) == 1


@pytest.mark.parametrize("seconds", [-1, 3600])
def test_a_late_commit_is_found_though_nobody_ticks_any_more(queue: JobQueue, connect: Connect, seconds: int) -> None:
    late = connect(autocommit=False)
    late.execute("insert into jobs (job_type) values ('resize')")
    connection = connect()
    _work_until_the_floor_has_passed(queue, connection)
    # The last tick ages, or the clock was set back; whoever claims by plain SQL must not trust its floor for ever.
    connection.execute("select setval('tick_clock', last_value + %s * 1000000::bigint) from tick_clock", [seconds])
    late.commit()
    assert len(connection.execute("select from claim_job_batch('w', '{resize}')").fetchall()) == 1


def test_settled_waits_for_every_transaction_that_may_still_commit_below_it(queue: JobQueue, connect: Connect) -> None:
    late, connection = connect(autocommit=False), connect()
    late.execute("insert into jobs (job_type) values ('resize')")
    inserted = late.execute("select run_at from jobs").fetchone()
    assert inserted
    _work_until_the_floor_has_passed(queue, connection)
    for _ in range(5):
        connection.execute("select tick('0')")
    assert connection.execute("select max(settled) <= %s, max(floor) > %s from lanes", inserted * 2).fetchone() == (
        True,
        True,
    )
    late.rollback()
    until_settled(connection, inserted[0])


def test_a_retry_and_a_snooze_are_found_within_a_second(queue: JobQueue, connect: Connect) -> None:
    queue.enqueue_many("resize", [{}] * 2)
    failing, snoozing = queue.claim(["resize"])
    _work_until_the_floor_has_passed(queue, connect())
    queue.fail(failing, "again", delay=0)
    queue.snooze(snoozing, "10ms")
    found: list[JobRow] = []
    until(lambda: found.extend(queue.claim(["resize"])) or len(found) >= 2, seconds=10)  # type: ignore[func-returns-value]
    assert {job.id for job in found} == {failing.id, snoozing.id}


def test_a_late_commit_of_a_new_lane_blocks_nobody(queue: JobQueue, connect: Connect) -> None:
    late = connect(autocommit=False)
    late.execute("insert into jobs (job_type) values ('brand-new')")
    done = threading.Event()

    def enqueue() -> None:
        queue.enqueue("brand-new")
        done.set()

    thread = threading.Thread(target=enqueue)
    thread.start()
    assert done.wait(10), "an enqueue waited for a stranger's open transaction"
    thread.join()
    assert len(queue.claim(["brand-new"])) == 1
    late.commit()
    tick_is_due(late)
    assert len(queue.claim(["brand-new"])) == 1


def _work_until_the_floor_has_passed(queue: JobQueue, connection: Connection[Any]) -> None:
    """Jobs come and go until the lane's floor lies above everything that was there before."""
    row = connection.execute("select clock_timestamp()").fetchone()
    assert row
    while connection.execute("select max(floor) > %s from lanes", row).fetchone() != (True,):
        queue.enqueue_many("resize", [{}] * 10)
        queue.complete_many(queue.claim(["resize"]))
        connection.execute("select tick('0')")
