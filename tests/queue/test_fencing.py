"""Only the worker with the current claim may write. Every other write raises LeaseLost and changes nothing."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from psycopg import Connection

from treadle import JobQueue, JobRow, LeaseLost, Retries, Status, Treadle
from treadle.db.queries import events as event_queries
from treadle.db.queries import logs as log_queries
from treadle.db.queries import memory as memory_queries
from treadle.db.queries import worker as worker_queries
from treadle.db.query import Query
from treadle.words.job import Claim
from treadle.words.record import OutgoingEvent, OutgoingLogLine

WRITES: dict[str, Callable[[JobQueue, JobRow], object]] = {
    "start": lambda queue, job: queue.start(job),
    "progress": lambda queue, job: queue.progress(job, 50, "resizing"),
    "complete": lambda queue, job: queue.complete(job, {"done": True}),
    "fail": lambda queue, job: queue.fail(job, "broken"),
    "fail for good": lambda queue, job: queue.fail(job, "broken", final=True),
    "release": lambda queue, job: queue.release(job),
    "snooze": lambda queue, job: queue.snooze(job, "1m"),
    "cancel": lambda queue, job: queue.cancel(job, "broken"),
    "event": lambda queue, job: queue.event(job, "rendered"),
}

EVENTS = [OutgoingEvent(1, 0.0, "rendered", "{}")]
LOG_LINES = [OutgoingLogLine(1, 0.0, 20, "shop", "apples")]
# What a worker writes while a handler runs. Each query returns whether the write was accepted.
HANDLER_WRITES: dict[str, Callable[[str, Claim], Query[Any]]] = {
    "report": lambda worker, claim: worker_queries.report(
        worker, [worker_queries.Report(claim, 1.0, 50, "resizing", None)]
    ),
    "events": lambda worker, claim: event_queries.record_events(worker, [(claim, EVENTS)], 0.0),
    "logs": lambda worker, claim: log_queries.record_logs(worker, [(claim, LOG_LINES)], 0.0, 5, 5),
    "checkpoint": lambda worker, claim: memory_queries.save_checkpoint(worker, claim, "1"),
    "step": lambda worker, claim: memory_queries.finish_step(worker, claim, 1, "upload", None),
    "transaction": memory_queries.lock_claimed,
    "end": lambda worker, claim: memory_queries.complete_claimed(worker, claim, None),
}


def claim_again(queue: JobQueue, job: JobRow) -> None:
    queue.release(job.id)
    queue.claim(["a"])


LOSSES: dict[str, Callable[[JobQueue, JobRow], object]] = {
    "claimed again by the same worker": claim_again,
    "released": lambda queue, job: queue.release(job.id),
    "cancelled": lambda queue, job: queue.cancel(job.id),
    "completed": lambda queue, job: queue.complete(job.id),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("write", WRITES)
def test_a_worker_with_a_stale_claim_changes_nothing(queue: JobQueue, write: str, loss: str) -> None:
    job_id = queue.enqueue("a")
    (job,) = queue.claim(["a"])
    LOSSES[loss](queue, job)
    before = queue.get(job_id)
    with pytest.raises(LeaseLost, match=f"{job_id} is no longer claimed with lease number 1"):
        WRITES[write](queue, job)
    assert queue.get(job_id) == before


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("write", HANDLER_WRITES)
def test_writes_of_a_handler_with_a_stale_claim_are_refused(
    app: Treadle, queue: JobQueue, write: str, loss: str
) -> None:
    job_id = queue.enqueue("a")
    (job,) = queue.claim(["a"])
    LOSSES[loss](queue, job)
    before = queue.get(job_id)
    assert not app.database.run(HANDLER_WRITES[write](queue.worker_id, claim_of(job)))
    assert queue.get(job_id) == before


@pytest.mark.parametrize("write", HANDLER_WRITES)
def test_writes_of_another_workers_handler_with_the_same_lease_number_are_refused(
    app: Treadle, queue: JobQueue, write: str
) -> None:
    job_id = queue.enqueue("a")
    (job,) = queue.claim(["a"])
    before = queue.get(job_id)
    assert not app.database.run(HANDLER_WRITES[write]("worker-2", claim_of(job)))
    assert queue.get(job_id) == before
    assert app.database.run(HANDLER_WRITES[write](queue.worker_id, claim_of(job)))


def claim_of(job: JobRow) -> Claim:
    return Claim(job.id, job.lease, job.job_type, "{}", 1, 3, 0, "default", 100, None, None, 0.0)


@pytest.mark.parametrize("write", WRITES)
def test_another_worker_with_the_same_lease_number_changes_nothing(
    queue: JobQueue, other: JobQueue, write: str
) -> None:
    """After a failover to a standby that missed a claim, two workers may have the same lease number."""
    job_id = queue.enqueue("a")
    (job,) = queue.claim(["a"])
    before = queue.get(job_id)
    with pytest.raises(LeaseLost):
        WRITES[write](other, job._replace(worker_id="worker-2"))
    assert queue.get(job_id) == before


@pytest.mark.parametrize("write", WRITES)
def test_the_worker_with_the_current_claim_may_write(queue: JobQueue, write: str) -> None:
    queue.enqueue("a")
    (job,) = queue.claim(["a"])
    WRITES[write](queue, job)


def test_a_batch_refuses_only_the_lost_jobs(queue: JobQueue, other: JobQueue) -> None:
    queue.enqueue_many("a", [{}] * 6)
    jobs = queue.claim(["a"])
    queue.cancel(jobs[0].id)
    queue.release(jobs[1].id)
    (claimed,) = other.claim(["a"])
    stranger = jobs[2]._replace(worker_id="another worker")
    lost = queue.complete_many([*jobs[:2], stranger, *jobs[3:]])
    assert lost == [jobs[0], jobs[1], stranger]
    assert queue.get(jobs[0].id).status == Status.CANCELLED
    assert queue.get(jobs[1].id) == claimed
    assert queue.get(jobs[2].id).status == Status.CLAIMED
    assert [queue.get(job.id).status for job in jobs[3:]] == [Status.COMPLETED] * 3
    assert queue.complete_many(jobs[3:]) == jobs[3:], "a second outcome was accepted"


def test_a_batch_refuses_a_job_that_the_same_worker_has_claimed_again(queue: JobQueue) -> None:
    queue.enqueue_many("a", [{}] * 2)
    jobs = queue.claim(["a"])
    claim_again(queue, jobs[0])
    assert queue.complete_many(jobs) == [jobs[0]]
    assert queue.get(jobs[0]).status == Status.CLAIMED


def test_a_batch_with_two_claims_of_one_job_accepts_the_newer_one(queue: JobQueue) -> None:
    queue.enqueue("a")
    (old,) = queue.claim(["a"])
    queue.release(old.id)
    (new,) = queue.claim(["a"])
    assert queue.complete_many([old, new]) == [old]
    assert queue.get(new).status == Status.COMPLETED


def test_only_a_claim_increases_the_lease_number(queue: JobQueue, connection: Connection[Any]) -> None:
    """A random walk through all transitions. `attempts` rises and falls; only a claim changes the lease number."""
    chance = random.Random(42)
    job_id = queue.enqueue("a", retry=Retries(999))
    claims = 0
    for _ in range(300):
        job = queue.get(job_id)
        assert job.lease == claims
        if job.status == Status.PENDING:
            connection.execute("update jobs set run_at = clock_timestamp()")
            claims += len(queue.claim(["a"]))
        elif job.status in (Status.CLAIMED, Status.RUNNING):
            WRITES[chance.choice(list(WRITES))](queue, job)
        else:
            queue.retry(job_id)
    assert claims > 50


def test_a_write_with_only_the_job_id_is_not_fenced(queue: JobQueue, other: JobQueue) -> None:
    job_id = queue.enqueue("a")
    queue.claim(["a"])
    other.complete(job_id)
    assert queue.get(job_id).status == Status.COMPLETED


def test_all_times_come_from_the_database(queue: JobQueue, connection: Connection[Any]) -> None:
    """No statement contains a time of the client's clock: only durations, and run_at if the caller gives one."""
    row = connection.execute("select clock_timestamp()").fetchone()
    assert row
    job_id = queue.enqueue("a", delay="0s")
    (job,) = queue.claim(["a"])
    queue.start(job)
    queue.complete(job)
    end = connection.execute("select clock_timestamp()").fetchone()
    assert end
    job = queue.get(job_id)
    times = [row[0], job.created_at, job.claimed_at, job.started_at, job.completed_at, end[0]]
    assert times == sorted(times)


LIMITED = "select set_limit('two', 2, p_job_type => 'b')"
BY_UPDATE = "update jobs set status = 'claimed', worker_id = 'plain' where id = %s returning lease"


@pytest.mark.own_database
def test_every_claim_on_a_promoted_server_has_a_higher_lease_number_than_all_before(
    queue: JobQueue, connection: Connection[Any]
) -> None:
    """tests/chaos/test_failover.py promotes one."""
    connection.execute("create or replace function lease_era() returns bigint language sql return 2000000000")
    for job_type, key in (("a", None), ("a", "k"), ("b", None)):
        if job_type == "b":  # the limit sends every claim another way
            connection.execute(LIMITED)
        queue.enqueue(job_type, key=key)
        (job,) = queue.claim([job_type])
        assert job.lease == 2_000_000_001, (job_type, key)
        queue.release(job)
        (job,) = queue.claim([job_type])
        assert job.lease == 2_000_000_002, (job_type, key)
        queue.complete(job)
    assert connection.execute(BY_UPDATE, [queue.enqueue("a")]).fetchone() == (2_000_000_001,)


@pytest.mark.own_database
def test_claims_go_on_where_the_timeline_cannot_be_read(connection: Connection[Any]) -> None:
    connection.execute("create role without_timelines; grant usage on schema treadle to without_timelines")
    try:
        connection.execute("revoke execute on function pg_walfile_name from public; set role without_timelines")
        assert connection.execute("select treadle.lease_era()").fetchone() == (0,)
    finally:
        connection.execute("reset role; drop owned by without_timelines; drop role without_timelines")
