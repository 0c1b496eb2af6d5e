"""What a worker writes about a job is accepted only while it has claimed the job."""

from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import one
from treadle import JobQueue

WRITES = {
    "settle_jobs": "select count(*) from settle_jobs(%(worker)s, array[%(id)s], array[%(lease)s::bigint], '{retry}')",
    "report_jobs": "select count(*) from report_jobs(%(worker)s, array[%(id)s], array[%(lease)s::bigint], '{1}')",
    "complete_jobs": """select count(*)
        from complete_jobs(array[%(id)s], array[%(lease)s::bigint], array[%(worker)s::varchar])""",
    "complete_job": """select count(*) filter (where done)
        from complete_job(%(id)s, null, %(lease)s, %(worker)s, 0.1) as done""",
}

LOSSES = {
    "taken again by the same worker": "select release_job(id) from jobs; select claim_jobs('worker-1', '{a}')",
    "held by another under the same number": "update jobs set worker_id = 'worker-2'",
    "made pending by hand": "update jobs set status = 'pending'",
    "completed": "update jobs set status = 'completed'",
    "failed": "update jobs set status = 'failed'",
    "cancelled": "select cancel_job(id) from jobs",
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("write", WRITES)
def test_a_job_that_is_no_longer_claimed_is_not_written(
    queue: JobQueue, connection: Connection[Any], write: str, loss: str
) -> None:
    queue.enqueue("a")
    (job,) = queue.claim(["a"])
    for statement in LOSSES[loss].split(";"):
        connection.execute(statement)
    before = queue.get(job.id)
    params = {"worker": "worker-1", "id": job.id, "lease": job.lease}
    assert connection.execute(WRITES[write], params).fetchone() == (0,)
    assert queue.get(job.id) == before


@pytest.mark.parametrize("write", WRITES)
def test_a_claimed_job_is_written(queue: JobQueue, connection: Connection[Any], write: str) -> None:
    queue.enqueue("a")
    (job,) = queue.claim(["a"])
    params = {"worker": "worker-1", "id": job.id, "lease": job.lease}
    assert connection.execute(WRITES[write], params).fetchone() == (1,)


def test_a_job_completed_under_another_lease_number_is_lost(queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("a")
    (mine,) = queue.claim(["a"])
    queue.release(mine)
    (theirs,) = queue.claim(["a"])
    queue.complete(theirs)
    found = connection.execute(
        "select completed from find_lost_claims(array[%s, %s]::uuid[], array[%s, %s]::bigint[])",
        [mine.id, mine.id, mine.lease, theirs.lease],
    ).fetchall()
    assert found == [(False,), (True,)]


def test_a_cancelled_attempt_and_a_snoozed_one_record_no_error(queue: JobQueue, connection: Connection[Any]) -> None:
    for outcome in ("cancelled", "released"):
        queue.enqueue("a")
        (job,) = queue.claim(["a"])
        connection.execute(
            "select settle_jobs('worker-1', array[%s], '{1}', array[%s::varchar], '{told}')", [job.id, outcome]
        )
        assert queue.errors(job.id) == []
        connection.execute("delete from jobs")


def test_a_failure_without_a_reason_is_recorded(queue: JobQueue, connection: Connection[Any]) -> None:
    job_id = queue.enqueue("a")
    queue.claim(["a"])
    assert one(connection, "select fail_job(%s, null)", job_id)
    (error,) = queue.errors(job_id)
    assert (error.attempt, error.error) == (1, "no reason was given")
