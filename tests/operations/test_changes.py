"""Pauses, changes by operators with their audit records, and the counts for the charts."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.waiting import until_waiting_for_lock
from tests.support.workers import one
from treadle import InvalidArgument, JobQueue, Status, TreadleError
from treadle.db.database import Database
from treadle.db.queries import operations as operation_queries
from treadle.db.query import Query
from treadle.words.changes import Action
from treadle.words.errors import TooSlow


@pytest.fixture
def database(url: str) -> Any:
    made = Database(url, "treadle")
    yield made
    made.close()


def outcomes(database: Database, action: Action, *ids: uuid.UUID, **more: Any) -> list[str]:
    done = database.run(operation_queries.change_jobs(action, ids, "ada", **more))
    assert [each.id for each in done] == sorted(ids)
    return [each.outcome for each in done]


def test_a_paused_type_is_not_claimed(queue: JobQueue) -> None:
    queue.enqueue("a")
    queue.enqueue("b")
    assert queue.pause("a", reason="the bank is closed")
    assert [job.job_type for job in queue.claim(["a", "b"])] == ["b"]
    (pause,) = queue.pauses()
    assert (pause.job_type, pause.queue, pause.reason) == ("a", None, "the bank is closed")
    assert queue.resume("a")
    assert [job.job_type for job in queue.claim(["a", "b"])] == ["a"]
    assert queue.pauses() == []


@pytest.mark.parametrize(
    ("job_type", "in_queue", "left"),
    [
        ("a", None, {("b", "x"), ("b", "y")}),
        (None, "x", {("a", "y"), ("b", "y")}),
        ("a", "x", {("a", "y"), ("b", "x"), ("b", "y")}),
        (None, None, set()),
    ],
)
def test_a_pause_applies_to_its_type_and_queue(
    queue: JobQueue, job_type: str | None, in_queue: str | None, left: set[Any]
) -> None:
    for name in ("a", "b"):
        for where in ("x", "y"):
            queue.enqueue(name, queue=where)
    queue.pause(job_type, in_queue)
    assert {(job.job_type, job.queue) for job in queue.claim(["a", "b"])} == left


def test_pausing_twice_is_harmless_and_resume_needs_the_same_type_and_queue(queue: JobQueue) -> None:
    assert queue.pause("a", "x")
    assert not queue.pause("a", "x")
    assert not queue.resume("a")
    assert queue.resume("a", "x")
    assert not queue.resume("a", "x")


def test_resuming_wakes_workers(queue: JobQueue, connect: Connect) -> None:
    listener = connect()
    channel = one(listener, "select channel('work')")
    listener.execute(f"listen {channel}".encode())
    queue.enqueue("a")
    queue.pause("a")
    assert one(listener, "select next_due('{a}')") is None
    list(listener.notifies(timeout=0.1))
    queue.resume("a")
    assert len(list(listener.notifies(timeout=5, stop_after=1))) == 1


def test_pauses_are_audited(queue: JobQueue, database: Database) -> None:
    database.run(operation_queries.pause("a", None, "ada", "why"))
    database.run(operation_queries.pause("a", None, "grace"))
    database.run(operation_queries.resume("a", None, "grace"))
    newest, oldest = database.run(operation_queries.find_audit())
    assert (oldest.actor, oldest.action, oldest.job_type, oldest.reason) == ("ada", "pause", "a", "why")
    assert (newest.actor, newest.action, newest.job_type, newest.queue) == ("grace", "resume", "a", None)


def test_each_action_is_possible_in_certain_statuses(queue: JobQueue, database: Database) -> None:
    def job_in(status: str) -> uuid.UUID:
        made = queue.enqueue("a", delay="1h" if status == "later" else 0)
        if status in ("pending", "later"):
            return made
        (job,) = queue.claim(["a"])
        if status == "running":
            queue.start(job)
        elif status == "completed":
            queue.complete(job)
        elif status == "failed":
            queue.fail(job, "no", final=True)
        elif status == "cancelled":
            queue.cancel(job)
        return made

    allowed = {
        Action.RETRY: {"completed", "failed", "cancelled"},
        Action.CANCEL: {"pending", "later", "claimed", "running"},
        Action.DELETE: {"pending", "later", "completed", "failed", "cancelled"},
        Action.RUN_NOW: {"later"},
        Action.PRIORITY: {"pending", "later", "claimed", "running"},
    }
    for action, fit in allowed.items():
        for status in ("running", "claimed", "completed", "failed", "cancelled", "pending", "later"):
            database.run(Query("delete from treadle.jobs", {}, lambda _: None))
            made = job_in(status)
            more = {"priority": 150} if action is Action.PRIORITY else {}
            assert outcomes(database, action, made, **more) == ["done" if status in fit else "unfit"], (action, status)


def test_each_change_is_in_the_audit(queue: JobQueue, database: Database) -> None:
    first, second = queue.enqueue("a"), queue.enqueue("a", delay="1h")
    outcomes(database, Action.PRIORITY, first, second, priority=150)
    outcomes(database, Action.RUN_NOW, first, second)
    outcomes(database, Action.CANCEL, first, reason="not wanted")
    audited = [(each.action, each.job_id, each.reason) for each in database.run(operation_queries.find_audit())]
    assert audited == [
        ("cancel", first, "not wanted"),
        ("run_now", second, None),
        ("priority", second, None),
        ("priority", first, None),
    ]
    of_second = database.run(operation_queries.find_audit(second))
    assert of_second[1].details == {"status": "pending", "priority": 100, "to": 150}
    assert queue.get(first).last_error == "not wanted"
    assert [job.id for job in queue.claim(["a"])] == [second]


def test_a_change_and_its_audit_are_one_transaction(connection: Connection[Any], queue: JobQueue) -> None:
    made = queue.enqueue("a")
    connection.execute("begin")
    connection.execute("select operate('cancel', %s)", [[made]])
    connection.execute("rollback")
    assert queue.get(made).status == Status.PENDING
    assert one(connection, "select count(*) from audit") == 0


def test_a_change_of_several_jobs_skips_locked_ones(queue: JobQueue, connect: Connect) -> None:
    ids = queue.enqueue_many("a", [{}, {}, {}])
    other = connect(autocommit=False)
    other.execute("select from jobs where id = %s for update", [ids[1]])
    impatient = connect()
    impatient.execute("set statement_timeout = '1500ms'")  # less than the wait for a single locked job
    rows = impatient.execute("select outcome from operate('cancel', %s)", [[*ids, uuid.UUID(int=0)]]).fetchall()
    assert [row[0] for row in rows] == ["missing", "done", "busy", "done"]
    assert queue.get(ids[1]).status == Status.PENDING


def test_a_change_of_one_job_waits_a_short_time_for_its_lock(
    queue: JobQueue, database: Database, connect: Connect
) -> None:
    made = queue.enqueue("a")
    other, waiting = connect(autocommit=False), connect()
    other.execute("select from jobs where id = %s for update", [made])
    with ThreadPoolExecutor() as threads:
        done = threads.submit(one, waiting, "select outcome from operate('cancel', %s)", [made])
        until_waiting_for_lock(connect())
        other.rollback()
        assert done.result() == "done"
    assert queue.get(made).status == Status.CANCELLED
    other.execute("select from jobs where id = %s for update", [made])
    assert outcomes(database, Action.RETRY, made) == ["busy"]


def test_invalid_changes_are_refused(database: Database, connection: Connection[Any]) -> None:
    with pytest.raises(InvalidArgument, match="at most 500 jobs"):
        operation_queries.change_jobs(Action.RETRY, [uuid.uuid4()] * 501, "ada")
    with pytest.raises(InvalidArgument, match="a priority is required for the action priority"):
        operation_queries.change_jobs(Action.RETRY, [], "ada", priority=1)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="action must be retry"):
        connection.execute("select operate('explode', '{}')")


def test_finished_jobs_are_counted_by_the_minute(queue: JobQueue, connection: Connection[Any]) -> None:
    for _ in range(3):
        queue.enqueue("a")
    queue.enqueue("b", queue="x")
    done, failed, again = queue.claim(["a"])
    (other,) = queue.claim(["b"])
    queue.complete(done)
    queue.fail(failed, "no", final=True)
    queue.fail(again, "not yet")
    queue.cancel(other)

    def counted() -> list[Any]:
        connection.execute("select count_minutes('0')")
        return connection.execute("""
            select queue, job_type, sum(completed), sum(failed), sum(cancelled), sum(errors)
            from minutes group by queue, job_type order by job_type""").fetchall()

    expected = [("default", "a", 1, 1, 0, 2), ("x", "b", 0, 0, 1, 0)]
    assert counted() == expected
    assert counted() == expected, "each job is counted once"
    assert one(connection, "select sum(waited) from minutes") > 0


def test_a_long_backlog_is_counted_in_batches(queue: JobQueue, connection: Connection[Any]) -> None:
    connection.execute("update meter set reached = clock_timestamp() - interval '1 hour'")
    connection.execute("""insert into jobs (job_type, status, finished_at)
        select 'a', 'completed', clock_timestamp() - interval '30 minutes' + n * interval '1 second'
        from generate_series(1, 1000) as n""")
    seen = []
    for _ in range(11):
        connection.execute("select count_minutes('0', 100)")
        seen.append(one(connection, "select coalesce(sum(completed), 0) from minutes"))
    assert seen == [100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1000]


def test_many_errors_are_counted_in_batches(queue: JobQueue, connection: Connection[Any]) -> None:
    connection.execute("update meter set reached = clock_timestamp() - interval '1 hour'")
    job_id = queue.enqueue("a")
    connection.execute(
        """insert into errors (job_id, attempt, failed_at, error)
        select %s, 1, clock_timestamp() - interval '30 minutes' + n * interval '1 second', ''
        from generate_series(1, 250) as n""",
        [job_id],
    )
    seen = []
    for _ in range(4):
        connection.execute("select count_minutes('0', 100)")
        seen.append(one(connection, "select coalesce(sum(errors), 0) from minutes"))
    assert seen == [100, 200, 250, 250]


def test_jobs_that_have_just_finished_are_counted_later(queue: JobQueue, connection: Connection[Any]) -> None:
    """Other transactions that finish jobs at the same time may not have committed yet."""
    queue.complete(queue.enqueue("a"))
    connection.execute("select count_minutes('1 hour')")
    assert one(connection, "select count(*) from minutes") == 0
    connection.execute("select count_minutes('0')")
    assert one(connection, "select sum(completed) from minutes") == 1


def test_after_a_long_time_without_counting_only_the_last_day_is_counted(
    queue: JobQueue, connection: Connection[Any]
) -> None:
    connection.execute("update meter set reached = '-infinity'")
    connection.execute("""insert into jobs (job_type, status, finished_at)
        select 'a', 'completed', clock_timestamp() - hours * interval '1 hour' from unnest(array[1, 30]) as hours""")
    connection.execute("select count_minutes('0')")
    assert one(connection, "select sum(completed) from minutes") == 1


def test_counting_continues_after_the_clock_was_set_back(queue: JobQueue, connection: Connection[Any]) -> None:
    connection.execute("update meter set reached = clock_timestamp() + interval '1 hour'")
    connection.execute("select count_minutes('0')")
    queue.complete(queue.enqueue("a"))
    connection.execute("select count_minutes('0')")
    assert one(connection, "select sum(completed) from minutes") == 1


def test_minutes_are_kept_for_a_week(queue: JobQueue, connection: Connection[Any]) -> None:
    connection.execute("""insert into minutes (minute, queue, job_type)
        select clock_timestamp() - days * interval '1 day', '', '' from unnest(array[6, 8]) as days""")
    connection.execute("select count_minutes('0')")
    assert one(connection, "select count(*) from minutes") == 1


def test_concurrent_counts_do_not_count_a_job_twice(queue: JobQueue, connect: Connect) -> None:
    first, other = connect(autocommit=False), connect()
    queue.complete(queue.enqueue("a"))
    first.execute("select count_minutes('0')")
    assert one(other, "select count_minutes('0')") == 0
    first.commit()
    assert one(other, "select sum(completed) from minutes") == 1


def test_a_read_cannot_write_and_has_a_time_limit(queue: JobQueue, database: Database) -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        database.read(operation_queries.pause("a", None))
    assert database.read(Query("show jit", {}, lambda rows: rows[0][0])) == "off"
    with pytest.raises(TooSlow, match="took too long") as raised:
        database.read(Query("select pg_sleep(30)", {}, lambda _: None), 0.05)
    assert isinstance(raised.value, TreadleError)
    assert database.run(operation_queries.pause("a", None)), "the connection can write again"
