"""Workers that send heartbeats and have free slots, but claim nothing although jobs are due."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.doctor import AT_ONCE, assert_ok, get_finding
from tests.support.why import register_worker
from tests.support.workers import Ledger, count, locked_file, until, worker_process
from treadle import JobQueue
from treadle.doctor import Finding, Limits, Severity, queries
from treadle.doctor import examine as doctor
from treadle.doctor.facts import OverdueJob, QuietWorker
from treadle.doctor.finding import Context
from treadle.doctor.rules.stalled import check_stalled

CONTEXT = Context("treadle", Limits(), "0.1.0")
JOB = OverdueJob("id-1", "default", "mail", 400.0)
WORKER = QuietWorker("w1", "host", 7, ["mail", "film"], None, ["film"], 400.0, 50, 3, 0, 2, 0)


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LOOK_AGAIN_SECONDS", 0.05)


@pytest.fixture
def overdue(queue: JobQueue, connection: Connection[Any]) -> UUID:
    """A job that has been due for 20 minutes, and a worker that has been idle for longer."""
    register_worker(connection)
    job_id = queue.enqueue("mail")
    connection.execute("update jobs set run_at = run_at - interval '20 minutes'")
    connection.execute("update workers set started_at = started_at - interval '1 hour'")
    return job_id


def test_a_worker_with_a_blocked_event_loop_is_found(
    url: str,
    queue: JobQueue,
    connection: Connection[Any],
    ledger: Ledger,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    limits = AT_ONCE._replace(stalled=(0.5, 0.5))
    # As with a supervisor of an earlier version, which does not report that the worker is stuck: another finding.
    connection.execute(
        """create function forget() returns trigger language plpgsql as
        'begin new.stuck_since := null; return new; end'"""
    )
    connection.execute("create trigger forget before update on workers for each row execute function forget()")
    request.addfinalizer(lambda: connection.execute("drop function forget cascade"))
    with locked_file(tmp_path) as lock, worker_process(url, tmp_path) as worker:
        queue.enqueue("block_the_loop", {"lock": lock})
        until(ledger.starts, lambda: "the handler has started")
        job_id = queue.enqueue("noop")
        until(lambda: count(connection, "run_at < clock_timestamp() - interval '1 second'") == 2, lambda: "due")
        found = get_finding(url, "stalled_workers", limits)
        assert found.level is Severity.WARNING
        assert f"(job {job_id})" in found.detail
        pid = connection.execute("select pid from workers").fetchone()
        assert pid
        assert f"py-spy dump --pid {pid[0]}" in found.remedy
        assert worker.process.poll() is None


def test_a_due_job_that_an_idle_worker_does_not_claim_is_found(
    url: str, queue: JobQueue, connection: Connection[Any], overdue: UUID
) -> None:
    found = get_finding(url, "stalled_workers")
    assert found.level is Severity.WARNING
    assert found.detail.startswith("w1 (process 7 on host): no claim for 1h 00m; mail has been due for 20m 0")
    assert found.detail.endswith(f" (job {overdue})")
    assert f"treadle why {overdue}" in found.remedy
    queue.claim(["mail"])
    assert_ok(url, "stalled_workers")


@pytest.mark.parametrize(
    "change",
    [
        "select pause('mail')",
        "insert into worker_concurrency values ('w1', 0, 'ada', now())",
        "update jobs set run_at = clock_timestamp() + interval '1 hour'",
        "update jobs set holds = 1",
        "update workers set queues = '{other}'",
        "update workers set job_types = '{film}'",
        "update workers set lost_at = clock_timestamp()",
        "update workers set started_at = clock_timestamp()",
        "update workers set concurrency = 0",
        "update workers set concurrency = null",
        "update workers set version = null",
        "update workers set process_types = '{mail}', children = 0",
        # It has claimed or finished another job lately.
        "insert into jobs (job_type, status, worker_id, claimed_at) values ('a', 'running', 'w1', now())",
        "insert into jobs (job_type, status, worker_id) values ('a', 'completed', 'w1')",
        "insert into errors (job_id, attempt, worker_id, error) values (new_id(), 1, 'w1', 'no luck')",
    ],
)
def test_a_worker_is_not_stalled_after(url: str, connection: Connection[Any], overdue: UUID, change: str) -> None:
    assert get_finding(url, "stalled_workers").level is Severity.WARNING
    connection.execute(change.encode())
    assert_ok(url, "stalled_workers")


def test_a_worker_whose_slots_are_all_taken_by_long_jobs_is_ok(
    url: str, connection: Connection[Any], overdue: UUID
) -> None:
    connection.execute("update workers set concurrency = 3")
    long = """insert into jobs (job_type, status, worker_id, claimed_at)
        select 'mail', 'running', 'w1', now() - interval '1 hour' from generate_series(1, %s)"""
    connection.execute(long, [2])
    assert get_finding(url, "stalled_workers").level is Severity.WARNING
    connection.execute(long, [1])
    assert_ok(url, "stalled_workers")
    # Claimed ahead, with a fixed prefetch.
    connection.execute(long.replace("running", "claimed"), [5])
    assert_ok(url, "stalled_workers")


def test_a_job_behind_another_of_its_key_is_not_overdue(
    url: str, queue: JobQueue, connection: Connection[Any], overdue: UUID
) -> None:
    connection.execute("delete from jobs")
    for _ in range(2):
        queue.enqueue("mail", key="k")
    queue.claim(["mail"])
    # Both are unblocked, but only one of them may run.
    connection.execute("update jobs set holds = 0, run_at = run_at - interval '20 minutes' where status = 'pending'")
    assert_ok(url, "stalled_workers")


def test_a_locked_job_is_not_overdue(url: str, connect: Connect, overdue: UUID) -> None:
    with connect(autocommit=False) as other:
        other.execute("select from jobs for update")
        assert_ok(url, "stalled_workers")


def test_claimed_jobs_that_do_not_start_are_found(url: str, connection: Connection[Any], overdue: UUID) -> None:
    connection.execute("delete from jobs")
    connection.execute(
        """insert into jobs (job_type, status, worker_id, claimed_at)
        select 'mail', 'claimed', 'w1', now() - interval '1 hour' from generate_series(1, 60)"""
    )
    found = get_finding(url, "stalled_workers")
    assert found.level is Severity.WARNING
    assert found.detail.endswith("59 jobs that it claimed have not started")


def test_a_job_that_is_claimed_a_moment_later_is_no_finding(
    url: str, queue: JobQueue, overdue: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    wait = queries.wait

    def claim_meanwhile(seconds: float) -> Any:
        waited.append(seconds)
        queue.claim(["mail"])
        return wait(seconds)

    monkeypatch.setattr(queries, "wait", claim_meanwhile)
    assert_ok(url, "stalled_workers")
    assert waited == [0.05]


def level(found: list[Finding]) -> Severity:
    (one,) = found
    return one.level


@pytest.mark.parametrize(
    ("worker", "job", "expected"),
    [
        ({}, {}, Severity.WARNING),
        ({}, {"due": 299.0}, Severity.NOTE),
        ({"quiet": 299.0}, {}, Severity.NOTE),
        ({}, {"due": 59.0}, Severity.OK),
        ({"quiet": 59.0}, {}, Severity.OK),
        ({"running": 49}, {}, Severity.WARNING),
        ({"running": 50}, {}, Severity.OK),
        ({"running": 20, "unstarted": 30}, {}, Severity.WARNING),
        ({"running": 50, "unstarted": 30}, {}, Severity.OK),
        ({"running": 49, "unstarted": 30}, {}, Severity.OK),
        ({"concurrency": 1, "running": 0, "unstarted": 1}, {}, Severity.OK),
        ({"running": 50}, {"job_type": "film"}, Severity.WARNING),
        ({"in_children": 2}, {"job_type": "film"}, Severity.OK),
        ({"in_children": 2}, {}, Severity.WARNING),
        ({"queues": ["other"]}, {}, Severity.OK),
    ],
)
def test_a_stalled_worker_has_the_right_severity(
    worker: dict[str, Any], job: dict[str, Any], expected: Severity
) -> None:
    assert level(check_stalled(CONTEXT, [WORKER._replace(**worker)], [JOB._replace(**job)])) is expected
