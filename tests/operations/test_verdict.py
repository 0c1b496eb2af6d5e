"""The verdict of the overview: what is wrong now, in one sentence each."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.buffers import buffers
from tests.support.roles import granted_roles
from tests.support.waiting import until_waiting_for_lock
from tests.support.why import register_worker
from treadle import Connections, JobQueue, Treadle
from treadle.doctor import Finding, Limits, Severity, queries
from treadle.doctor.facts import DueLane, FailureRate, TableBlocker, Worker
from treadle.operations import verdict
from treadle.operations.verdict import (
    ALL_WELL,
    SECONDS,
    TOO_SLOW,
    UNREACHABLE,
    Facts,
    Verdict,
    VerdictReader,
    judge,
    with_findings,
)
from treadle.words.changes import Pause
from treadle.words.stuck import Stuck

# On a busy machine. Without a time limit, it would take 30 s and more.
IN_TIME = 15 * SECONDS
AT_ONCE = Limits(blocked=0.0, blocked_rows=0.0)
WORKER = Worker("w1", "host", 7, 60, 1, 10, None, ["mail", "film"], None, "0.2", False, False, 5)
LANE = DueLane("default", "mail", 100, 400.0)
RATE = FailureRate("mail", 10, 90, 5, 990, 10)
PAUSED_AT = datetime(2030, 1, 1, 12, tzinfo=UTC)
NOW = PAUSED_AT.timestamp() + 600


def read(app: Treadle, limits: Limits = AT_ONCE) -> list[Verdict]:
    return VerdictReader(app.database, limits).read()


def aread(app: Treadle, limits: Limits = AT_ONCE) -> list[Verdict]:
    async def run() -> list[Verdict]:
        try:
            return await VerdictReader(app.database, limits).aread()
        finally:
            await app.aclose()

    return asyncio.run(run())


def test_a_queue_without_problems_is_well(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    register_worker(connection)
    queue.enqueue("mail")
    assert read(app) == aread(app) == [ALL_WELL]


def test_due_jobs_without_any_worker_are_critical(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("mail")
    assert read(app) == [ALL_WELL]  # a deployment has moments without a worker
    connection.execute("update jobs set run_at = run_at - interval '6 seconds'")
    (found,) = read(app)
    assert (found.severity, found.finding, found.link) == (Severity.CRITICAL, "unserved_lanes", "/workers")
    assert found.sentence.startswith("No worker is running, and jobs have been due for 6.")
    register_worker(connection)
    assert read(app) == [ALL_WELL]


@pytest.fixture
def exclusive_lock(connect: Connect) -> Iterator[int]:
    with connect(autocommit=False) as other:
        other.execute("lock table jobs in access exclusive mode")
        yield other.info.backend_pid


@pytest.mark.parametrize("look", [read, aread])
def test_a_locked_table_is_critical_and_takes_no_time(app: Treadle, exclusive_lock: int, look: Any) -> None:
    app.database.read_together([])  # connects
    began = time.monotonic()
    (found,) = look(app)
    assert time.monotonic() - began < IN_TIME
    assert (found.severity, found.finding) == (Severity.CRITICAL, "blocked_tables")
    assert found.sentence.startswith(f"Session {exclusive_lock} (")
    assert " has locked the table jobs for " in found.sentence
    assert found.remedy == f"select pg_terminate_backend({exclusive_lock});"


@pytest.mark.parametrize("look", [read, aread])
def test_a_table_that_was_locked_a_moment_ago_is_too_slow(
    app: Treadle, exclusive_lock: int, monkeypatch: pytest.MonkeyPatch, look: Any
) -> None:
    """The lock is too young to be reported, but the reads wait for it."""
    monkeypatch.setattr(verdict, "STATEMENT_SECONDS", 0.4)
    began = time.monotonic()
    assert look(app, Limits(blocked=3600)) == [TOO_SLOW]
    assert time.monotonic() - began < IN_TIME


def test_a_server_that_does_not_answer_is_noticed_in_time(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict, "SECONDS", 0.2)
    monkeypatch.setattr(verdict, "STATEMENT_SECONDS", 60.0)
    connection.execute("begin; lock table workers in access exclusive mode")
    try:
        began = time.monotonic()
        assert aread(app, Limits(blocked=3600)) == [TOO_SLOW]
        assert time.monotonic() - began < IN_TIME
    finally:
        connection.execute("rollback")


def test_a_server_that_is_gone_is_critical() -> None:
    app = Treadle("postgresql://nobody@127.0.0.1:1/nowhere", connections=Connections(connect_timeout="100ms"))
    assert read(app) == [UNREACHABLE]
    assert aread(app) == [UNREACHABLE]


def test_a_row_that_others_wait_for_is_a_warning(app: Treadle, queue: JobQueue, connect: Connect) -> None:
    job = queue.enqueue("mail")
    holder, waiter = connect(autocommit=False), connect(autocommit=False)
    holder.execute("update jobs set priority = 7 where id = %s", [job])
    with ThreadPoolExecutor() as threads:
        threads.submit(waiter.execute, "update jobs set priority = 8")
        try:
            until_waiting_for_lock(connect())
            (found,) = read(app)
            assert (found.severity, found.finding) == (Severity.WARNING, "blocked_tables")
            assert f"Session {holder.info.backend_pid} (" in found.sentence
            assert " has locked rows of jobs for " in found.sentence
            assert read(app, Limits(blocked=0.0)) == [ALL_WELL]  # nobody has waited for long
        finally:
            holder.rollback()


def test_a_viewer_can_read_the_verdict(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("mail")
    connection.execute("update jobs set run_at = run_at - interval '6 seconds'")
    with granted_roles(url) as roles:
        app = Treadle(roles.url_of("viewer"))
        try:
            (found,) = read(app)
        finally:
            app.close()
    assert found.finding == "unserved_lanes"


def test_failure_rates_are_read_every_half_minute(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = VerdictReader(app.database)
    insert = """insert into minutes (minute, queue, job_type, completed, errors)
        select now() - %s * interval '1 minute', 'default', 'mail', %s, %s"""
    connection.execute(insert, [100, 1000, 5])
    assert reader.read() == [ALL_WELL]
    connection.execute(insert, [1, 10, 90])
    assert reader.read() == [ALL_WELL]
    monkeypatch.setattr(verdict, "RATES_SECONDS", 0.0)
    (found,) = reader.read()
    assert found.sentence == "mail fails more often than before: 90% of 100 attempts, before that 0.5%."
    assert found.link == "/jobs?status=failed&type=mail"


@pytest.mark.fresh_database
def test_the_cost_does_not_depend_on_the_number_of_jobs(queue: JobQueue, connection: Connection[Any]) -> None:
    register_worker(connection)
    queue.enqueue_many("mail", [{}] * 5000)
    connection.execute("set enable_seqscan = off")
    connection.execute(queries.use_indexes().bound("treadle").replace(b"true", b"false"))
    for query in (queries.find_workers(), queries.find_due_lanes(), queries.find_failure_rates(Limits())):
        assert buffers(connection, query.bound("treadle"), query.params) < 100


PAUSE = Pause("mail", None, PAUSED_AT, "ada", "broken")


@pytest.mark.parametrize(
    ("facts", "severity", "sentence", "link"),
    [
        ({"lanes": [LANE._replace(due=4)]}, Severity.OK, "All is well.", "/health"),
        (
            {"lanes": [LANE]},
            Severity.CRITICAL,
            "No worker is running, and jobs have been due for 6m 40s.",
            "/workers",
        ),
        (
            {
                "lanes": [LANE, LANE._replace(job_type="a", queue="b", due=401)],
                "workers": [WORKER._replace(job_types=[])],
            },
            Severity.WARNING,
            "No worker serves a in queue b and 1 more: jobs have been due for 6m 41s.",
            "/jobs?status=pending&type=a&queue=b",
        ),
        (
            {"lanes": [LANE], "workers": [WORKER._replace(job_types=None)]},
            Severity.NOTE,
            "No worker serves mail: jobs have been due for 6m 40s.",
            "/jobs?status=pending&type=mail&queue=default",
        ),
        (
            {"workers": [WORKER._replace(seen=100.0), WORKER._replace(worker_id="w2", seen=20.0, lost=1.0)]},
            Severity.CRITICAL,
            "No worker is running: the last one, w2, was last seen 20s ago.",
            "/workers",
        ),
        (
            {"lanes": [LANE._replace(due=29)], "workers": [WORKER._replace(job_types=[])]},
            Severity.OK,
            "All is well.",
            "/health",
        ),
        (
            {"lanes": [LANE], "workers": [WORKER]},
            Severity.NOTE,
            "Jobs wait for long: the oldest of mail has been due for 6m 40s.",
            "/jobs?status=pending&type=mail&queue=default",
        ),
        (
            {"lanes": [LANE._replace(due=7200)], "workers": [WORKER]},
            Severity.WARNING,
            "Jobs wait for long: the oldest of mail has been due for 2h 00m.",
            "/jobs?status=pending&type=mail&queue=default",
        ),
        ({"lanes": [LANE._replace(due=299)], "workers": [WORKER]}, Severity.OK, "All is well.", "/health"),
        (
            {"pauses": [PAUSE]},
            Severity.NOTE,
            "mail has been paused for 10m 00s by ada (broken).",
            "/resume?job_type=mail",
        ),
        (
            {"pauses": [PAUSE._replace(job_type=None)], "lanes": [LANE._replace(due=7200)]},
            Severity.WARNING,
            "Everything has been paused for 10m 00s by ada (broken); jobs have been due for 2h 00m.",
            "/resume",
        ),
        (
            {"pauses": [PAUSE._replace(queue="slow", paused_by=None, reason=None)]},
            Severity.NOTE,
            "mail in queue slow has been paused for 10m 00s.",
            "/resume?job_type=mail&queue=slow",
        ),
        (
            {"workers": [WORKER._replace(stuck=Stuck(PAUSED_AT, "blocked", None, "film", None))]},
            Severity.CRITICAL,
            "Worker w1 is stuck: its event loop has not run for 10m 00s, blocked by a job of type film.",
            "/workers",
        ),
        (
            {"rates": [RATE._replace(past_completed=0, past_errors=0)]},
            Severity.WARNING,
            "mail fails in 90% of 100 attempts.",
            "/jobs?status=failed&type=mail",
        ),
        (
            {"rates": [RATE]},
            Severity.WARNING,
            "mail fails more often than before: 90% of 100 attempts, before that 1.0%.",
            "/jobs?status=failed&type=mail",
        ),
    ],
)
def test_a_verdict_is_a_sentence_with_a_link(
    facts: dict[str, Any], severity: Severity, sentence: str, link: str
) -> None:
    (found,) = judge(Facts(NOW, **facts))
    assert (found.severity, found.sentence, found.link) == (severity, sentence, link)


def test_the_most_severe_verdict_comes_first() -> None:
    blocker = TableBlocker(7, None, "ada", "psql", None, "idle", "", 60.0, ["jobs"], True, True, 1, 5.0, False)
    facts = Facts(NOW, [blocker], [WORKER], [LANE], [PAUSE._replace(job_type="film")], [RATE])
    assert [each.finding for each in judge(facts)] == [
        "blocked_tables",
        "failure_rates",
        "paused_lanes",
        "unclaimed_jobs",
    ]
    assert judge(facts)[0].sentence == "Session 7 (ada, psql) has locked the table jobs for 1m 00s."


def test_names_and_reasons_cannot_add_a_line_or_show_a_secret() -> None:
    (found,) = judge(Facts(NOW, pauses=[PAUSE._replace(paused_by="x\ny", reason="password=hunter2")]))
    assert "\n" not in found.sentence
    assert "hunter2" not in found.sentence


def test_what_only_the_examination_finds_is_told_too() -> None:
    """Once, by the verdict if it has a sentence for it."""
    findings = [
        Finding("indexes", Severity.CRITICAL, "The index idx_jobs_claimable is missing"),
        Finding("stuck_workers", Severity.CRITICAL, "A worker is stuck"),
        Finding("durability", Severity.NOTE, "fsync is off"),
    ]
    stuck = Verdict(Severity.CRITICAL, "Worker w is stuck.", "stuck_workers")
    assert [each.sentence for each in with_findings([stuck], findings)] == [
        "Worker w is stuck.",
        "The index idx_jobs_claimable is missing.",
    ]
    assert [each.finding for each in with_findings([ALL_WELL], findings[:1])] == ["indexes"]
    assert with_findings([ALL_WELL], findings[2:]) == [ALL_WELL]
