"""Why a job does not run: other jobs run before it, in its lane or because of its key."""

from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect, Why
from tests.support.waiting import wait_for_floor_margin
from tests.support.why import register_worker
from tests.support.workers import one
from treadle import JobQueue


def run_jobs_on(
    queue: JobQueue, connection: Connection[Any], number: int, job_type: str = "mail", to: str = "w1"
) -> None:
    """Let the worker run this many jobs of the type."""
    queue.enqueue_many(job_type, [{}] * number, priority=1000)
    connection.execute("select start_job(id) from claim_jobs(%s, %s, %s)", [to, [job_type], number])


def record_finished(
    connection: Connection[Any], job_type: str, minutes_ago: int, in_queue: str = "default", **n: int
) -> None:
    """Record finished jobs for a minute before the one that the workers have counted up to."""
    connection.execute(
        """insert into minutes (minute, queue, job_type, completed, failed, errors, cancelled)
        select date_trunc('minute', reached) - %s * interval '1 minute', %s, %s, %s, %s, %s, %s from meter""",
        [minutes_ago, in_queue, job_type, *(n.get(kind, 0) for kind in ("completed", "failed", "errors", "cancelled"))],
    )


def count_up_to_half_a_minute(connection: Connection[Any]) -> None:
    """Let finished jobs be counted up to the middle of the last minute."""
    connection.execute("update meter set reached = date_trunc('minute', clock_timestamp()) - interval '30 seconds'")


def test_the_jobs_ahead_are_counted(queue: JobQueue, connection: Connection[Any], why: Why) -> None:
    register_worker(connection, "{mail,film,book}")
    queue.enqueue_many("mail", [{}] * 3)
    queue.enqueue_many("film", [{}] * 4)
    queue.enqueue_many("book", [{}] * 5, priority=150)
    queue.enqueue_many("mail", [{}] * 2, priority=101, queue="other")
    made = queue.enqueue("mail")
    # None of these runs before it.
    queue.enqueue_many("mail", [{}] * 7)
    queue.enqueue_many("film", [{}] * 7)
    queue.enqueue_many("book", [{}] * 7, priority=99)
    queue.enqueue_many("book", [{}] * 7, priority=150, delay="1h")
    queue.enqueue_many("unknown", [{}] * 7, priority=150)
    queue.enqueue_many("book", [{}] * 7, priority=150, queue="paused")
    queue.pause(None, "paused")
    queue.enqueue_many("book", [{}] * 3, keys=["k"] * 3, priority=150)  # only the first is claimable
    reason = why(made)
    assert reason.name == "busy"
    assert (reason.data["ahead"], reason.data["exact"]) == (15, True)
    assert [reason.data[f"ahead_in_{where}"] for where in ("lane", "priority", "higher")] == [3, 4, 8]
    assert (
        "The only worker that serves the job is busy: 15 jobs are ahead of it "
        "(8 with a higher priority, 4 with the same priority, of other types or queues, "
        "3 of its type, queue and priority)"
    ) in reason.sentence
    before = queue.claim(["mail", "film", "book"], batch_size=reason.data["ahead"])
    assert made not in {job.id for job in before}
    (next_one,) = queue.claim(["mail", "film", "book"], batch_size=1)
    assert next_one.id == made, "it is claimed after exactly that many jobs"


def test_a_job_that_is_not_the_head_of_its_key_is_not_counted(
    queue: JobQueue, connection: Connection[Any], why: Why
) -> None:
    register_worker(connection)
    queue.enqueue_many("mail", [{}] * 3, keys=["k"] * 3)
    connection.execute("update jobs set holds = 0")  # as after overlapping transactions
    made = queue.enqueue("mail")
    assert why(made).data["ahead"] == 1
    connection.execute(
        "update jobs set status = 'running' where id = (select max(id::text) from jobs where key = 'k')::uuid"
    )
    assert why(made).name == "ready", "a younger job of the key runs"


def test_only_jobs_of_the_same_workers_are_counted(queue: JobQueue, connection: Connection[Any], why: Why) -> None:
    register_worker(connection, "{mail,film}", "w1", "{a,b}")
    register_worker(connection, "{mail,book}", "w2", "{a}")
    register_worker(connection, "{song}", "w3")
    for name in ("film", "book", "song"):
        for where in ("a", "b", "c"):
            queue.enqueue(name, queue=where, priority=150)
    made = queue.enqueue("mail", queue="a")
    assert why(made).data["ahead_in_higher"] == 3, "film in a and b, book in a"
    connection.execute("update workers set lost_at = now() where worker_id = 'w1'")
    assert why(made).data["ahead_in_higher"] == 1, "a lost worker claims nothing"
    connection.execute("update workers set seen_at = now() - interval '2 hours' where worker_id = 'w2'")
    register_worker(connection, "{mail}", "w4")
    assert why(made).name == "ready"


def test_a_job_that_was_committed_late_is_counted(
    queue: JobQueue, connection: Connection[Any], connect: Connect, why: Why
) -> None:
    register_worker(connection)
    queue.complete(queue.enqueue("mail"))
    late = connect(autocommit=False)
    late.execute("select enqueue('mail')")
    wait_for_floor_margin(connection)
    connection.execute("select tick('0')")
    queue.enqueue_many("mail", [{}] * 2)
    made = queue.enqueue("mail")
    assert why(made).data["ahead"] == 2
    late.commit()
    below = "select count(*) from jobs where status = 'pending' and run_at < (select max(floor) from floors)"
    assert one(connection, below) == 1
    connection.execute("select setval('tick_clock', 0)")  # no tick has looked below the floor
    assert why(made).data["ahead"] == 3


def test_jobs_in_child_processes_have_their_own_slots(queue: JobQueue, connection: Connection[Any], why: Why) -> None:
    register_worker(connection, "{mail,film,book}", places=2, process_types="{film,book}", children=1)
    run_jobs_on(queue, connection, 2)
    queue.enqueue("book", priority=150)
    mail, film = queue.enqueue("mail"), queue.enqueue("film")
    assert (why(mail).data["ahead"], why(mail).data["places"], why(mail).data["taken"]) == (0, 2, 2)
    assert (why(film).data["ahead"], why(film).data["places"], why(film).data["taken"]) == (1, 1, 0)
    run_jobs_on(queue, connection, 1, "book")
    assert (why(film).data["ahead"], why(film).data["taken"]) == (1, 1)


def test_a_job_waits_if_all_slots_are_taken(queue: JobQueue, connection: Connection[Any], why: Why) -> None:
    register_worker(connection, places=2)
    register_worker(connection, worker_id="w2", places=1)
    run_jobs_on(queue, connection, 2)
    made = queue.enqueue("mail")
    assert why(made).name == "ready"
    run_jobs_on(queue, connection, 3, to="w2")
    reason = why(made)
    assert reason.name == "busy"
    assert (reason.data["ahead"], reason.data["places"], reason.data["taken"]) == (0, 3, 3)
    assert "The 2 workers that serve the job have no free slot (3 in total); the job is next" in reason.sentence
    assert reason.short == "is next, but all slots are taken"
    connection.execute("select complete_job(id) from find_claimed_jobs('w1') limit 1")
    assert why(made).name == "ready"


def test_the_start_is_estimated_from_the_recent_rate(queue: JobQueue, connection: Connection[Any], why: Why) -> None:
    register_worker(connection, "{mail,film}", queues="{default}")
    queue.enqueue_many("mail", [{}] * 29)
    made = queue.enqueue("mail")
    reason = why(made)
    assert (reason.data["rate"], reason.data["starts_at"]) == (None, None)
    assert "its start cannot be estimated" in reason.sentence
    count_up_to_half_a_minute(connection)
    record_finished(connection, "mail", 3, completed=20, errors=5, failed=2, cancelled=1000)
    record_finished(connection, "mail", 0, completed=4)
    record_finished(connection, "film", 2, completed=30, failed=4)
    record_finished(connection, "unknown", 2, completed=1000)
    record_finished(connection, "mail", 1, "elsewhere", completed=1000)
    record_finished(connection, "mail", 6, completed=1000)
    # 20 + 5 + 4 + 30 + 4 attempts in 3.5 minutes
    reason = why(made)
    assert reason.data["rate"] == pytest.approx(63 / 210)
    left = reason.data["starts_at"] - one(connection, "select clock_timestamp()")
    assert left < timedelta(seconds=29 / 63 * 210) < left + timedelta(minutes=1)
    assert "63 attempts finished in the last 3m 30s, so it may start in about 1m 37s, at " in reason.sentence


def test_outdated_figures_are_not_used(queue: JobQueue, connection: Connection[Any], why: Why) -> None:
    register_worker(connection)
    queue.enqueue("mail")
    made = queue.enqueue("mail")
    count_up_to_half_a_minute(connection)
    record_finished(connection, "mail", 1, completed=60)
    assert why(made).data["rate"] is not None
    connection.execute("update meter set reached = reached - interval '2 minutes'")
    connection.execute("update minutes set minute = minute - interval '2 minutes'")
    assert why(made).data["rate"] is None


def test_the_count_of_jobs_ahead_is_limited(queue: JobQueue, connection: Connection[Any], why: Why) -> None:
    register_worker(connection)
    queue.enqueue_many("mail", [{}] * 1_000)
    made = queue.enqueue("mail")
    assert (why(made).data["ahead"], why(made).data["exact"]) == (1_000, True)
    queue.enqueue_many("mail", [{}] * 2, priority=150)
    reason = why(made)
    assert (reason.data["ahead"], reason.data["exact"]) == (1_000, False)
    assert (reason.data["ahead_in_lane"], reason.data["ahead_in_higher"]) == (1_000, 1), "it stopped counting"
    assert "more than 1,000 jobs are ahead" in reason.sentence


# Its key


def test_a_key_is_blocked_by_a_running_job(queue: JobQueue, connection: Connection[Any], why: Why) -> None:
    register_worker(connection)
    first, second, third = (queue.enqueue("mail", key="k") for _ in range(3))
    (job,) = queue.claim(["mail"])
    queue.start(job)
    reason = why(second)
    assert reason.name == "key_blocked"
    assert (
        f"The job is blocked by its key k: it waits for job {first}, which has been running on worker-1 for"
        in reason.sentence
    )
    assert (reason.data["key"], reason.data["blocking_job"], reason.data["before"]) == ("k", first, 1)
    assert reason.data["blocking_reason"] == "running"
    assert (why(third).data["blocking_job"], why(third).data["before"]) == (first, 2)
    assert "1 more with this key runs before it" in why(third).sentence
    queue.complete(job)
    assert why(second).name == "ready"
    assert why(third).data["blocking_job"] == second
    assert why(third).data["blocking_reason"] == "ready"


def test_a_key_is_blocked_by_a_job_that_waits_for_its_retry(
    queue: JobQueue, connection: Connection[Any], why: Why
) -> None:
    register_worker(connection)
    first, second = (queue.enqueue("mail", key="k") for _ in range(2))
    (job,) = queue.claim(["mail"])
    queue.fail(job, "no luck", delay="1h")
    reason = why(second)
    assert f"job {first}, which failed on attempt 1 of 3 and will be retried in " in reason.sentence
    assert reason.data["blocking_reason"] == "due_later"
    connection.execute("update jobs set run_at = clock_timestamp() where id = %s", [first])
    queue.pause("mail")
    assert why(second).name == "paused", "the job's own reasons come first"
    queue.resume("mail")
    connection.execute("update jobs set job_type = 'film' where id = %s", [first])
    assert why(second).data["blocking_reason"] == "no_worker_for_type"
    queue.cancel(first)
    assert why(second).name == "ready"


def test_a_job_not_marked_as_blocked_may_wait_for_its_key(
    queue: JobQueue, connection: Connection[Any], why: Why
) -> None:
    register_worker(connection)
    first, second = (queue.enqueue("mail", key="k") for _ in range(2))
    connection.execute("update jobs set holds = 0")  # as after overlapping transactions
    assert why(first).data.get("ahead") is None
    assert why(first).name == "ready"
    assert (why(second).name, why(second).data["blocking_job"]) == ("key_blocked", first)
    assert [job.id for job in queue.claim(["mail"])] == [first]
    # A younger job that runs blocks an older one.
    queue.fail(first, "no luck", delay="1h")
    assert [job.id for job in queue.claim(["mail"])] == []
    connection.execute("update jobs set status = 'running' where id = %s", [second])
    reason = why(first)
    assert (reason.name, [each.name for each in reason.also]) == ("due_later", ["key_blocked"])


def test_a_job_may_be_blocked_by_a_younger_one(queue: JobQueue, connection: Connection[Any], why: Why) -> None:
    register_worker(connection)
    first, second = (queue.enqueue("mail", key="k") for _ in range(2))
    # As after overlapping transactions.
    connection.execute("update jobs set holds = case when id = %s then 1 else 0 end", [first])
    assert (why(first).name, why(first).data["blocking_job"], why(first).data["before"]) == ("key_blocked", second, 1)
    assert why(second).name == "ready"
    assert [job.id for job in queue.claim(["mail"])] == [second]


def test_a_job_marked_as_blocked_without_a_blocking_job_is_explained(
    queue: JobQueue, connection: Connection[Any], why: Why
) -> None:
    register_worker(connection)
    made = queue.enqueue("mail", key="k")
    connection.execute("update jobs set holds = 1")
    reason = why(made)
    assert (reason.name, reason.data["blocking_job"]) == ("key_blocked", None)
    assert queue.claim(["mail"]) == []
    connection.execute("update jobs set holds = 0")
    assert why(made).name == "ready", "the remedy works"
