"""Why a job does not run: each cause is created for real and reported until it is removed."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from psycopg import Connection

from tests.conftest import Connect, Why
from tests.support.why import register_worker
from tests.support.workers import one
from treadle import JobNotFound, JobQueue, Reason, Retries, Treadle
from treadle.db.queries import operations as operation_queries
from treadle.words.changes import Action


def test_an_unknown_job_is_an_error(why: Why) -> None:
    with pytest.raises(JobNotFound, match="there is no job"):
        why(uuid4())


def test_why_is_available_asynchronously(app: Treadle, queue: JobQueue) -> None:
    first = queue.enqueue("mail", key="k")
    second = queue.enqueue("mail", key="k")

    async def ask() -> list[Reason]:
        try:
            return [await app.handle(each).awhy() for each in (first, second)]
        finally:
            await app.aclose()

    assert [each.name for each in asyncio.run(ask())] == ["no_worker", "key_blocked"]


# Claimed jobs


def test_a_running_job_is_explained(queue: JobQueue, connection: Connection[Any], why: Why) -> None:
    register_worker(connection, worker_id="worker-1")
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    queue.start(job)
    queue.progress(job, 40, stage="rendering")
    reason = why(job.id)
    assert reason.name == "running"
    assert "worker-1 has been working on attempt 1 of 3" in reason.sentence
    assert "at 40% (rendering)" in reason.sentence
    assert (reason.data["worker"], reason.data["progress"], reason.data["stage"]) == ("worker-1", 40, "rendering")
    assert reason.data["seen_at"] >= job.claimed_at


def test_a_claimed_job_that_is_about_to_start_is_explained(
    queue: JobQueue, connection: Connection[Any], why: Why
) -> None:
    register_worker(connection, worker_id="worker-1")
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    assert why(job.id).name == "claimed"
    assert "is about to start it" in why(job.id).sentence
    for _ in range(2):
        queue.enqueue("mail")
        (other,) = queue.claim(["mail"])
        queue.start(other)
    assert why(job.id).data["beside"] == 2
    assert "after the 2 jobs that it is running" in why(job.id).sentence


def test_a_job_of_a_worker_that_missed_its_lease_is_explained(
    queue: JobQueue, connection: Connection[Any], why: Why
) -> None:
    register_worker(connection, worker_id="worker-1")
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    connection.execute("""update jobs set claimed_at = clock_timestamp() - interval '3 hours'""")
    connection.execute("update workers set seen_at = clock_timestamp() - interval '2 hours'")
    reason = why(job.id)
    assert reason.name == "worker_lost"
    assert "there is no other live worker" in reason.sentence
    assert reason.data["lease"] == 3600
    register_worker(connection, worker_id="another")
    assert "another worker recovers the job" in why(job.id).sentence
    connection.execute("select * from recover_lost_workers()")
    assert why(job.id).name == "ready"


def test_a_job_of_a_worker_that_was_declared_lost_is_explained(
    queue: JobQueue, connection: Connection[Any], why: Why
) -> None:
    register_worker(connection, worker_id="worker-1")
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    connection.execute("update workers set lost_at = clock_timestamp()")
    assert why(job.id).name == "worker_lost"


def test_a_job_of_a_client_without_heartbeats_is_explained(
    queue: JobQueue, connection: Connection[Any], why: Why
) -> None:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    assert "it is not registered as a worker" in why(job.id).remedy, "nobody would notice that it is gone"
    queue.start(job)
    assert why(job.id).name == "running"
    assert "it is not registered as a worker" in why(job.id).remedy
    connection.execute("update jobs set claimed_at = clock_timestamp() - interval '10 minutes'")
    reason = why(job.id)
    assert reason.name == "client_silent"
    assert "without any, the job is recovered after a day" in reason.remedy
    assert "which has never sent a heartbeat" in reason.sentence
    assert "recover_stale_jobs" in reason.remedy
    queue.heartbeat()
    assert why(job.id).name == "running"
    assert "registered" not in why(job.id).remedy
    connection.execute("update workers set seen_at = clock_timestamp() - interval '6 minutes'")
    reason = why(job.id)
    assert (reason.name, "which has sent no heartbeat for 6m " in reason.sentence) == ("client_silent", True)
    queue.recover_stale_jobs(timedelta(minutes=5))
    assert why(job.id).name == "no_worker"


# Finished jobs


def test_a_completed_job_is_explained(queue: JobQueue, why: Why) -> None:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    queue.complete(job)
    assert why(job.id).name == "completed"
    assert f"treadle retry {job.id}" in why(job.id).remedy


def test_a_failed_job_is_explained(queue: JobQueue, why: Why) -> None:
    queue.enqueue("mail", retry=Retries(0))
    (job,) = queue.claim(["mail"])
    queue.fail(job, "the bank is closed.\x1b[2J")
    reason = why(job.id)
    assert reason.name == "failed"
    assert reason.sentence.endswith("on attempt 1 of 1: the bank is closed. [2J.")
    assert reason.data["error"] == "the bank is closed.\x1b[2J"


def test_a_cancelled_job_is_explained(queue: JobQueue, app: Treadle, why: Why) -> None:
    ids = queue.enqueue_many("mail", [{}, {}, {}])
    queue.cancel(ids[0])
    assert why(ids[0]).sentence.endswith("ago.")
    queue.cancel(ids[1], "not wanted")
    assert why(ids[1]).sentence.endswith("ago: not wanted.")
    app.database.run(operation_queries.change_jobs(Action.CANCEL, [ids[2]], "ada", "a mistake"))
    reason = why(ids[2])
    assert reason.name == "cancelled"
    assert reason.sentence.endswith("ago by ada: a mistake.")
    assert (reason.data["cancelled_by"], reason.data["reason"]) == ("ada", "a mistake")


def test_an_earlier_error_or_audit_record_does_not_explain_a_cancellation(
    queue: JobQueue, app: Treadle, why: Why
) -> None:
    made = queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    queue.fail(job, "no luck", delay=0)
    app.database.run(operation_queries.change_jobs(Action.CANCEL, [made], "ada"))
    reason = why(made)
    assert (reason.data["cancelled_by"], reason.data["reason"]) == ("ada", None)
    assert "no luck" not in reason.sentence
    queue.retry(made)
    queue.cancel(made)
    reason = why(made)
    assert (reason.data["cancelled_by"], reason.data["reason"]) == (None, None)


# Pending jobs


def test_a_job_without_attempts_left_is_explained(queue: JobQueue, connection: Connection[Any], why: Why) -> None:
    register_worker(connection)
    made = queue.enqueue("mail")
    connection.execute("update jobs set attempts = 5")
    reason = why(made)
    assert reason.name == "out_of_attempts"
    assert reason.sentence == ("No worker will ever claim the job: it is pending, but it has used 5 of 3 attempts.")
    connection.execute(statement_in(reason.remedy))
    assert why(made).name == "ready", "the remedy works"
    assert queue.get(made).max_attempts == 6


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("attempts = null", "attempts is null"),
        ("max_attempts = null", "max_attempts is null"),
        ("attempts = null, max_attempts = null", "attempts is null"),
        ("max_attempts = 0", "max_attempts is 0"),
        ("max_attempts = -5", "max_attempts is -5"),
        ("attempts = 1, max_attempts = 1", "it has used 1 of 1 attempt"),
    ],
)
def test_a_job_with_an_invalid_number_of_attempts_is_explained(
    queue: JobQueue, connection: Connection[Any], why: Why, change: str, problem: str
) -> None:
    register_worker(connection)
    made = queue.enqueue("mail")
    connection.execute(f"update jobs set {change}".encode())
    assert queue.claim(["mail"]) == []
    reason = why(made)
    assert (reason.name, reason.short) == ("out_of_attempts", f"cannot be claimed ({problem})")
    connection.execute(statement_in(reason.remedy))
    assert why(made).name == "ready"
    assert [each.id for each in queue.claim(["mail"])] == [made], "the remedy works"


def statement_in(remedy: str) -> bytes:
    """The statement that a remedy begins with."""
    return remedy[remedy.index("update ") : remedy.index(";")].encode()


def test_a_delayed_job_is_explained(queue: JobQueue, connection: Connection[Any], why: Why) -> None:
    register_worker(connection)
    made = queue.enqueue("mail", delay="1h")
    reason = why(made)
    assert reason.name == "due_later"
    assert "is scheduled for later: it is due in " in reason.sentence
    assert reason.data["due_at"] == queue.get(made).run_at
    assert reason.also == ()
    queue.claim(["mail"])
    connection.execute("update jobs set run_at = clock_timestamp()")
    (job,) = queue.claim(["mail"])
    queue.snooze(job, "1h")
    assert "was postponed and is due in " in why(made).sentence


def test_a_job_that_waits_for_its_retry_is_explained(queue: JobQueue, connection: Connection[Any], why: Why) -> None:
    register_worker(connection)
    made = queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    queue.fail(job, "no route to host", delay="10m")
    reason = why(made)
    assert reason.name == "due_later"
    assert "attempt 1 of 3 failed" in reason.sentence
    assert "(no route to host), and the next one is due in " in reason.sentence
    assert (reason.data["failed_attempt"], reason.data["error"]) == (1, "no route to host")
    connection.execute("update jobs set run_at = clock_timestamp()")
    (job,) = queue.claim(["mail"])
    queue.snooze(job, "10m")
    assert "failed" not in why(made).sentence, "the failed attempt was an earlier one"


@pytest.mark.parametrize(
    ("job_type", "in_queue", "what", "remedy"),
    [
        (None, None, "paused all jobs", "treadle resume --all"),
        ("mail", None, "paused the type mail ", "treadle resume --type mail"),
        (None, "slow lane", "paused the queue slow lane ", "treadle resume --queue 'slow lane'"),
        ("mail", "slow lane", "the type mail in the queue slow lane", "treadle resume --type mail --queue 'slow lane'"),
    ],
)
def test_a_paused_job_is_explained(
    queue: JobQueue,
    connection: Connection[Any],
    why: Why,
    job_type: str | None,
    in_queue: str | None,
    what: str,
    remedy: str,
) -> None:
    register_worker(connection)
    made = queue.enqueue("mail", queue="slow lane")
    connection.execute("select pause('other'), pause(null, 'other'), pause('mail', 'other')")
    assert why(made).name == "ready", "pauses of other types and queues do not matter"
    connection.execute("select pause(%s, %s, 'ada', 'the bank is closed')", [job_type, in_queue])
    reason = why(made)
    assert reason.name == "paused"
    assert what in reason.sentence
    assert "ada paused" in reason.sentence
    assert reason.sentence.endswith("ago: the bank is closed.")
    assert reason.remedy.endswith(remedy)
    assert (reason.data["job_type"], reason.data["queue"], reason.data["paused_by"]) == (job_type, in_queue, "ada")
    queue.resume(job_type, in_queue)
    assert why(made).name == "ready"


def test_each_pause_of_a_job_is_reported(queue: JobQueue, connection: Connection[Any], why: Why) -> None:
    register_worker(connection)
    made = queue.enqueue("mail")
    connection.execute("select pause(), pause('mail'), pause('mail', 'default')")
    pauses = []
    while (reason := why(made)).name == "paused":
        pauses.append([reason.data["job_type"], reason.data["queue"], len(reason.also)])
        assert queue.resume(reason.data["job_type"], reason.data["queue"])
    assert pauses == [[None, None, 2], ["mail", None, 1], ["mail", "default", 0]]
    assert reason.name == "ready"


def test_a_job_without_a_live_worker_is_explained(queue: JobQueue, connection: Connection[Any], why: Why) -> None:
    made = queue.enqueue("mail")
    assert why(made).sentence == "There is no live worker."
    register_worker(connection)
    connection.execute("update workers set seen_at = clock_timestamp() - interval '2 hours'")
    reason = why(made)
    assert reason.name == "no_worker"
    assert "the last one, w1, was seen 2h 00m ago" in reason.sentence
    assert reason.data["last_worker"] == "w1"
    queue.heartbeat()
    assert "worker-1 is a client that does not say which types it claims" in why(made).sentence
    connection.execute(
        "update workers set seen_at = clock_timestamp(), lost_at = clock_timestamp() where lease is not null"
    )
    assert why(made).name == "no_worker", "the worker is lost"
    connection.execute("select renew_workers('{w2}', '10 seconds')")
    assert "w2 is still starting" in why(made).sentence
    register_worker(connection)
    assert why(made).name == "ready"


def test_a_job_whose_type_no_worker_serves_is_explained(queue: JobQueue, connection: Connection[Any], why: Why) -> None:
    made = queue.enqueue("mail")
    register_worker(connection, "{b,c}", "w2")
    assert "the only one serves b, c." in why(made).sentence
    register_worker(connection, "{a,b}", "w1")
    reason = why(made)
    assert reason.name == "no_worker_for_type"
    assert reason.sentence == "No live worker serves the job type mail: the 2 live workers serve a, b, c."
    assert reason.data["job_types"] == ["a", "b", "c"]
    register_worker(connection, "{mail}", "w3")
    assert why(made).name == "ready"


def test_a_job_whose_queue_no_worker_serves_is_explained(
    queue: JobQueue, connection: Connection[Any], why: Why
) -> None:
    made = queue.enqueue("mail", queue="slow")
    register_worker(connection, "{mail}", "w1", "{fast,other}")
    register_worker(connection, "{a}", "w2")
    reason = why(made)
    assert reason.name == "no_worker_for_queue"
    assert (
        reason.sentence
        == "No live worker serves the queue slow: the only one serves the type mail only in fast, other."
    )
    register_worker(connection, "{mail}", "w3", "{slow}")
    assert why(made).name == "ready"


def test_a_job_whose_workers_have_a_concurrency_of_0_is_explained(
    queue: JobQueue, connection: Connection[Any], why: Why
) -> None:
    made = queue.enqueue("mail")
    register_worker(connection, "{mail}", "w1")
    connection.execute("select set_concurrency('w1', 0)")
    reason = why(made)
    assert (reason.name, reason.data["workers"]) == ("workers_paused", ["w1"])
    assert reason.sentence == (
        "The only live worker that serves the job type mail claims nothing: its concurrency was set to 0 (w1)."
    )
    assert reason.remedy == "To let it claim jobs: treadle concurrency w1 --reset"
    register_worker(connection, "{mail}", "w2")
    assert why(made).name == "ready"
    assert why(made).data["workers"] == ["w2"]
    connection.execute("select set_concurrency('w2', 0)")
    assert why(made).sentence.startswith("The 2 live workers that serve the job type mail claim nothing: their ")
    connection.execute("select set_concurrency('w2', null)")
    assert why(made).name == "ready"


def test_a_changed_concurrency_is_how_many_slots_there_are(
    queue: JobQueue, connection: Connection[Any], why: Why
) -> None:
    register_worker(connection, "{mail,film}", "w1", places=1, process_types="{film}", children=3)
    queue.enqueue_many("mail", [{}, {}])
    connection.execute("select claim_jobs('w1', '{mail}', 1)")
    connection.execute("select claim_jobs('w1', '{mail}', 1)")
    made, apart = queue.enqueue("mail"), queue.enqueue("film")
    assert why(made).name == "busy"
    connection.execute("select set_concurrency('w1', 3)")
    assert why(made).name == "ready"
    connection.execute("select set_concurrency('w1', 2)")
    assert why(made).data["places"] == 2
    assert why(apart).name == "ready", "child processes have slots of their own"
    connection.execute("select set_concurrency('w1', 0)")
    assert why(apart).name == "workers_paused", "but a worker with 0 claims nothing"


def test_a_job_whose_row_is_locked_is_explained(
    queue: JobQueue, connection: Connection[Any], connect: Connect, why: Why
) -> None:
    register_worker(connection)
    made = queue.enqueue("mail")
    other = connect(autocommit=False)
    other.execute("select from jobs where id = %s for update", [made])
    assert why(made).name == "ready", "a short lock may be a claim"
    connection.execute("select pg_sleep(1.1)")
    assert queue.claim(["mail"]) == []
    reason = why(made)
    assert reason.name == "locked"
    assert reason.data["pid"] == other.info.backend_pid
    other.rollback()
    assert why(made).name == "ready"


def test_a_job_that_nothing_blocks_is_ready(queue: JobQueue, connection: Connection[Any], why: Why) -> None:
    register_worker(connection)
    made = queue.enqueue("mail")
    reason = why(made)
    assert (reason.name, reason.also) == ("ready", ())
    assert "last claim" not in reason.sentence
    connection.execute("update jobs set run_at = clock_timestamp() - interval '1 minute'")
    reason = why(made)
    assert "but workers have not claimed anything yet." in reason.sentence
    assert "treadle doctor" in reason.remedy
    connection.execute("select tick()")
    assert "last claim" not in why(made).sentence
    assert one(connection, "select status from jobs") == "pending", "asking why changes nothing"
