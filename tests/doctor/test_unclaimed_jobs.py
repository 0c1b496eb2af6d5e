"""Jobs that are due and served but not claimed, and jobs that were written while triggers were off."""

from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.buffers import buffers
from tests.support.doctor import assert_ok, get_finding
from tests.support.why import register_worker
from tests.support.workers import one
from treadle import JobQueue, Treadle
from treadle.doctor import Severity
from treadle.doctor import examine as doctor
from treadle.doctor.facts import UntriggeredJob
from treadle.doctor.queries import rows_of


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LOOK_AGAIN_SECONDS", 0.05)


@pytest.fixture
def untriggered(connect: Connect) -> Connection[Any]:
    """A connection on which triggers do not fire, as in logical replication."""
    connection = connect()
    connection.execute("set session_replication_role = replica")
    return connection


# Served, but not claimed


@pytest.fixture
def starved(queue: JobQueue, connection: Connection[Any]) -> UUID:
    """A job that has waited for half an hour, and a busy worker that serves it."""
    register_worker(connection, types="{mail,film}", places=1)
    job = queue.enqueue("mail")
    connection.execute("update jobs set run_at = run_at - interval '30 minutes'")
    connection.execute("update workers set started_at = started_at - interval '1 hour'")
    connection.execute(
        "insert into jobs (job_type, status, worker_id, claimed_at) values ('film', 'running', 'w1', clock_timestamp())"
    )
    return job


def test_a_job_that_busy_workers_never_claim_is_found(url: str, connection: Connection[Any], starved: UUID) -> None:
    found = get_finding(url, "unclaimed_jobs")
    assert found.level is Severity.NOTE
    assert found.detail.startswith("mail: due for 30m 0")
    assert f"treadle why {starved}" in found.remedy
    connection.execute("update jobs set run_at = run_at - interval '1 hour' where job_type = 'mail'")
    assert get_finding(url, "unclaimed_jobs").level is Severity.WARNING
    assert_ok(url, "stalled_workers")


@pytest.mark.parametrize(
    "change",
    [
        # Others of its type run, or have just run: it is only a long queue.
        "insert into jobs (job_type, status, worker_id, claimed_at) values ('mail', 'running', 'w1', now())",
        "insert into minutes (minute, queue, job_type, completed) values (clock_timestamp(), 'default', 'mail', 1)",
        "select pause('mail')",
        "update workers set job_types = '{film}'",
        "update jobs set run_at = clock_timestamp() where job_type = 'mail'",
        "update lanes set dormant_xid = '3', limit_name = 'a', limit_key = ''",
    ],
)
def test_a_job_is_not_unclaimed_after(url: str, connection: Connection[Any], starved: UUID, change: str) -> None:
    assert get_finding(url, "unclaimed_jobs").level is Severity.NOTE
    connection.execute(change.encode())
    assert_ok(url, "unclaimed_jobs")


# Where no claim looks

INSERT = """insert into jobs (job_type, queue, priority, run_at)
    values ('mail', 'it''s', 7, clock_timestamp() - interval '10 minutes') returning id::text"""


def test_a_job_in_a_lane_that_is_not_listed_is_found(
    url: str, queue: JobQueue, connection: Connection[Any], untriggered: Connection[Any]
) -> None:
    job = one(untriggered, INSERT)
    found = get_finding(url, "hidden_jobs")
    assert found.level is Severity.WARNING
    assert found.detail.startswith("mail in queue it's, priority 7: due for 10m 0")
    assert found.detail.endswith(f" (job {job}); claims do not look at its queue, type and priority")
    connection.execute(found.remedy.splitlines()[1].encode())
    assert_ok(url, "hidden_jobs")
    assert [str(each.id) for each in queue.claim(["mail"], queues=["it's"])] == [job]


def test_a_job_in_a_lane_that_is_idle_is_found(
    url: str, queue: JobQueue, connection: Connection[Any], untriggered: Connection[Any]
) -> None:
    one(untriggered, INSERT)
    connection.execute(
        "insert into lanes (queue, job_type, priority, dormant_xid) values ('it''s', 'mail', 7, pg_current_xact_id())"
    )
    found = get_finding(url, "hidden_jobs")
    assert found.detail.endswith("; claims do not look at its queue, type and priority")
    connection.execute(found.remedy.splitlines()[1].encode())
    assert_ok(url, "hidden_jobs")


def test_a_job_below_the_floor_of_its_lane_is_found(
    url: str, queue: JobQueue, connection: Connection[Any], untriggered: Connection[Any]
) -> None:
    job = one(untriggered, INSERT)
    connection.execute("insert into lanes (queue, job_type, priority) values ('it''s', 'mail', 7)")
    connection.execute(
        """insert into floors (queue, job_type, priority, floor, xid)
        values ('it''s', 'mail', 7, clock_timestamp() - interval '1 second', pg_current_xact_id())"""
    )
    found = get_finding(url, "hidden_jobs")
    assert "; claims begin at 20" in found.detail
    connection.execute(found.remedy.splitlines()[1].encode())
    assert_ok(url, "hidden_jobs")
    assert [str(each.id) for each in queue.claim(["mail"], queues=["it's"])] == [job]


def test_a_job_that_was_locked_when_the_floor_was_raised_is_not_hidden(
    url: str, connect: Connect, connection: Connection[Any], untriggered: Connection[Any]
) -> None:
    one(untriggered, INSERT)
    with connect(autocommit=False) as other:
        other.execute("select from jobs for update")
        assert_ok(url, "hidden_jobs")
    assert get_finding(url, "hidden_jobs").level is Severity.WARNING


def test_ticks_find_hidden_jobs_by_themselves(
    url: str, connection: Connection[Any], untriggered: Connection[Any]
) -> None:
    one(untriggered, INSERT)
    for _ in range(3):
        connection.execute("select tick('0')")
    assert_ok(url, "hidden_jobs")


def test_ordinary_jobs_are_not_hidden(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    for job_type in ("a", "b"):
        queue.enqueue(job_type, priority=3)
        queue.enqueue(job_type, queue="slow")
    connection.execute("update jobs set run_at = run_at - interval '10 minutes'")
    assert_ok(url, "hidden_jobs")
    # Not due for long.
    connection.execute("delete from lanes")
    connection.execute("update jobs set run_at = clock_timestamp()")
    assert_ok(url, "hidden_jobs")


# Without triggers


def mend(connection: Connection[Any], remedy: str) -> None:
    *statements, last = remedy.splitlines()
    assert last.startswith("Then run treadle doctor again")
    for statement in statements:
        connection.execute(statement.encode())


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_job_that_ended_without_its_time_is_found(
    url: str, connection: Connection[Any], untriggered: Connection[Any], status: str
) -> None:
    connection.execute("insert into jobs (job_type) values ('mail')")
    untriggered.execute("update jobs set status = %s", [status])
    found = get_finding(url, "untriggered_jobs")
    assert found.level is Severity.WARNING
    assert found.detail.endswith(" (mail) has ended without finished_at, so it is never deleted or counted")
    mend(connection, found.remedy)
    assert_ok(url, "untriggered_jobs")
    assert one(connection, "select finished_at is not null from jobs")


@pytest.mark.parametrize(
    "statement", ["delete from jobs where id = %s", "update jobs set status = 'failed' where id = %s"]
)
def test_a_key_whose_first_job_is_gone_is_found(
    url: str, queue: JobQueue, connection: Connection[Any], untriggered: Connection[Any], statement: str
) -> None:
    first, second = (queue.enqueue("mail", key="k") for _ in range(2))
    assert_ok(url, "untriggered_jobs")
    untriggered.execute(statement.encode(), [first])
    found = get_finding(url, "untriggered_jobs")
    assert f"{second} (mail) is blocked, and no other job with its key k is left to unblock it" in found.detail
    assert queue.claim(["mail"]) == []
    mend(connection, found.remedy)
    assert_ok(url, "untriggered_jobs")
    assert [each.id for each in queue.claim(["mail"])] == [second]


def test_a_job_that_waits_for_one_that_has_ended_is_found(
    url: str, app: Treadle, queue: JobQueue, connection: Connection[Any], untriggered: Connection[Any]
) -> None:
    @app.job
    def mail() -> None: ...

    first = mail.enqueue()
    second = mail.using(after=[first]).enqueue()
    untriggered.execute(
        "update jobs set status = 'completed', finished_at = clock_timestamp() - interval '2 minutes' where id = %s",
        [first.id],
    )
    found = get_finding(url, "untriggered_jobs")
    assert found.detail == f"{second.id} (mail) waits for jobs that have ended"
    mend(connection, found.remedy)
    assert_ok(url, "untriggered_jobs")
    assert [each.id for each in queue.claim(["mail"])] == [second.id]


@pytest.mark.parametrize(
    ("statement", "counts", "ended"),
    [
        ("update jobs set status = 'completed', finished_at = now() where id = %s", (1, 0, 0), "completed"),
        ("update jobs set status = 'failed', finished_at = now() where id = %s", (0, 1, 0), "failed"),
        ("delete from jobs where id = %s", (0, 0, 1), "failed"),
    ],
)
def test_a_workflow_whose_counts_are_wrong_is_found(
    url: str,
    app: Treadle,
    queue: JobQueue,
    connection: Connection[Any],
    untriggered: Connection[Any],
    statement: str,
    counts: tuple[int, int, int],
    ended: str,
) -> None:
    """Otherwise it would wait for ever."""
    batch = app.batch("import 7")
    first, second = (queue.enqueue(job_type, workflow=batch) for job_type in ("a", "b"))
    connection.execute("select roll_up_workflows('-infinity')")
    assert_ok(url, "untriggered_jobs")
    untriggered.execute(statement.encode(), [first])
    found = get_finding(url, "untriggered_jobs")
    assert found.detail == (
        f"{batch.id} (workflow) is a workflow with wrong counts: 1 of 2 jobs have ended, it counts 0 of 2"
    )
    mend(connection, found.remedy)
    assert_ok(url, "untriggered_jobs")
    mended = connection.execute("select completed, failed, cancelled, jobs, done, work from workflows").fetchone()
    assert mended == (*counts, 2, 1, 2)
    mend(connection, found.remedy)
    assert connection.execute("select completed, failed, cancelled from workflows").fetchone() == counts
    batch.close()
    queue.complete(queue.claim(["b"])[0])
    connection.execute("select tick('0')")
    assert batch.status() == ended
    assert not one(connection, "select recount_workflow(%s)", second)


def test_jobs_of_a_workflow_that_were_deleted_stay_in_its_counts(
    url: str, app: Treadle, queue: JobQueue, connection: Connection[Any], untriggered: Connection[Any]
) -> None:
    batch = app.batch("import 7")
    first, second, third, _ = (queue.enqueue(each, workflow=batch) for each in ("a", "b", "c", "d"))
    queue.complete(queue.claim(["a"])[0])
    queue.fail(queue.claim(["b"])[0], "no route", final=True)
    connection.execute("delete from jobs where id = any (%s)", [[first, second]])
    assert_ok(url, "untriggered_jobs")
    untriggered.execute("delete from jobs where id = %s", [third])
    found = get_finding(url, "untriggered_jobs")
    assert "3 of 4 jobs have ended, it counts 2 of 4" in found.detail
    mend(connection, found.remedy)
    assert_ok(url, "untriggered_jobs")
    assert connection.execute("select completed, failed, cancelled from workflows").fetchone() == (1, 1, 1)


def test_the_cost_of_checking_workflows_is_bounded(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    query = rows_of("find_untriggered_jobs", UntriggeredJob, seconds=60)

    def cost() -> int:
        connection.execute("select roll_up_workflows('-infinity')")
        connection.execute("vacuum analyze jobs, workflows, dependencies, member_changes")
        return buffers(connection, query.bound("treadle"), query.params)

    def add(jobs: int) -> None:
        batch = app.batch("import 7")
        queue.enqueue_many("a", [{}] * jobs, workflow=batch)

    for _ in range(10):
        add(1000)
    before = cost()
    add(3000)
    for _ in range(10):
        add(1000)
    assert 10_000 < before < 60_000
    assert cost() <= before + 2000
