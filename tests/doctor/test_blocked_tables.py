"""Sessions that lock the queue's tables: one critical finding that names them, not a time-out for every check."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.doctor import assert_ok, connected, findings, get_finding
from tests.support.waiting import until_waiting_for_lock
from tests.support.workers import until
from treadle import JobQueue, Treadle
from treadle.db import examination
from treadle.doctor import Limits, Severity, queries
from treadle.doctor import examine as doctor
from treadle.doctor.examine import aexamine
from treadle.doctor.facts import TableBlocker
from treadle.doctor.finding import Context
from treadle.doctor.rules.blocked import check_blockers

NAME = "blocked_tables"
# Reported although the lock was taken a moment ago.
AT_ONCE = Limits(blocked=0.02, blocked_rows=0.0)


@contextmanager
def waiting(connect: Connect, *statements: str) -> Iterator[list[Connection[Any]]]:
    """Sessions that wait for a lock, one behind the other."""
    sessions = [connect(autocommit=False) for _ in statements]
    with ThreadPoolExecutor() as threads:
        for session, statement in zip(sessions, statements, strict=True):
            threads.submit(session.execute, statement.encode())
            until_waiting_for_lock(connect())
        try:
            yield sessions
        finally:
            for session in sessions:
                session.cancel()


@pytest.fixture
def ada(url: str) -> Iterator[Connection[Any]]:
    connection = psycopg.connect(url, application_name="ada's psql", options="-c search_path=treadle")
    yield connection
    connection.close()


def test_a_locked_table_is_one_critical_finding_that_names_the_session(
    url: str, ada: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "LOCK_SECONDS", 60.0)  # for which a query waits if it does not know of the lock
    ada.execute("/* x */ lock table jobs in access exclusive mode -- 'secret'")
    began = time.monotonic()
    found = findings(url, AT_ONCE)
    assert time.monotonic() - began < 30
    problems = [each for each in found.values() if each.level is not Severity.OK and each.name != "durability"]
    (blocked,) = problems
    assert (blocked.name, blocked.level) == (NAME, Severity.CRITICAL)
    assert blocked.title == "A session has locked treadle.jobs: workers and applications wait for it."
    assert blocked.detail.startswith(f"process {ada.info.backend_pid}, user {ada.info.user}, application ada's psql, ")
    assert "idle in transaction, open for 0." in blocked.detail
    assert blocked.detail.endswith("last statement: /* x */ lock table jobs in access exclusive mode -- …")
    assert f"\nselect pg_terminate_backend({ada.info.backend_pid});\n" in blocked.remedy
    # The checks that only read the catalog still run.
    assert found["triggers"].level is Severity.OK
    assert "crashing_jobs" not in found
    with connected(url) as operator:
        operator.execute(blocked.remedy.splitlines()[1].encode())
        # The session ends a moment after the answer.
        locks = "select from pg_locks where pid = %s"
        until(lambda: not operator.execute(locks, [ada.info.backend_pid]).fetchall())
    assert_ok(url, NAME, AT_ONCE)
    assert sorted(findings(url)) == sorted(doctor.NAMES)


def test_an_async_examination_finds_the_same(url: str, ada: Connection[Any]) -> None:
    ada.execute("lock table jobs in access exclusive mode")

    async def run() -> list[Any]:
        app = Treadle(url)
        try:
            return await aexamine(app.database, AT_ONCE)
        finally:
            await app.aclose()

    found = asyncio.run(run())
    assert [each.name for each in found if each.level is Severity.CRITICAL] == [NAME]
    assert not [each for each in found if "timed out" in each.title]


def test_a_session_that_others_queue_behind_is_found_with_the_one_that_it_waits_for(
    url: str, connect: Connect, ada: Connection[Any]
) -> None:
    """Somebody has only read the table, a migration waits for that, and every worker waits for the migration."""
    ada.execute("select count(*) from jobs")
    with waiting(connect, "alter table jobs add column extra int", "select from jobs limit 1") as (migration, _):
        found = get_finding(url, NAME, AT_ONCE)
        assert found.level is Severity.CRITICAL
        first, second = found.detail.splitlines()
        assert first.startswith(f"process {ada.info.backend_pid}, ")
        assert "1 session waiting" in first
        assert second.startswith(f"process {migration.info.backend_pid}, ")
        assert "itself waits for a lock, 1 session waiting" in second
        # To end the first one is enough.
        assert f"pg_terminate_backend({ada.info.backend_pid})" in found.remedy
        assert f"pg_terminate_backend({migration.info.backend_pid})" not in found.remedy


def test_a_lock_that_only_excludes_writing_is_found_and_every_check_runs(url: str, ada: Connection[Any]) -> None:
    ada.execute("lock table jobs in share mode")
    found = findings(url, AT_ONCE)
    assert found[NAME].level is Severity.CRITICAL
    assert sorted(found) == sorted(doctor.NAMES)
    assert found["crashing_jobs"].level is Severity.OK


@pytest.mark.parametrize(
    "statement",
    [
        "select * from jobs for update",
        "insert into jobs (job_type) values ('a')",
        "lock table jobs in share update exclusive mode",  # a vacuum, or an index that is built concurrently
        "create table public.other (n int)",
    ],
)
def test_ordinary_locks_are_ok(url: str, ada: Connection[Any], statement: str) -> None:
    ada.execute(statement.encode())
    assert_ok(url, NAME, AT_ONCE)


def test_a_lock_that_is_released_at_once_is_ok(url: str, ada: Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As a migration does it."""
    ada.execute("lock table jobs in access exclusive mode")
    wait = queries.wait

    def release(seconds: float) -> Any:
        ada.rollback()
        return wait(seconds)

    monkeypatch.setattr(queries, "wait", release)
    found = findings(url, Limits(blocked=1))
    assert found[NAME].level is Severity.OK
    assert sorted(found) == sorted(doctor.NAMES)


def test_a_lock_that_is_taken_in_between_is_ok(
    url: str, connect: Connect, ada: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two short ones, of different sessions."""
    second = connect(autocommit=False)
    ada.execute("lock table jobs in share mode")
    wait = queries.wait

    def exchange(seconds: float) -> Any:
        ada.rollback()
        second.execute("lock table jobs in share mode")
        return wait(0.0)

    monkeypatch.setattr(queries, "wait", exchange)
    assert_ok(url, NAME, Limits(blocked=60))


def test_a_row_that_others_wait_for_is_a_warning(
    url: str, queue: JobQueue, connect: Connect, ada: Connection[Any]
) -> None:
    queue.enqueue("mail")
    ada.execute("update jobs set priority = 1")
    with waiting(connect, "update jobs set priority = 2"):
        found = get_finding(url, NAME, AT_ONCE)
        assert found.level is Severity.WARNING
        assert found.title == "A session has locked rows of treadle.jobs, and others wait for them."
        assert found.detail.startswith(f"process {ada.info.backend_pid}, ")
        assert_ok(url, NAME)
    ada.rollback()


def test_a_prepared_transaction_that_locks_a_table_is_found(small_server_url: str) -> None:
    with connected(small_server_url) as connection:
        connection.execute("begin; lock table treadle.jobs in access exclusive mode; prepare transaction 'left over'")
        found = get_finding(small_server_url, NAME, AT_ONCE)
        assert found.level is Severity.CRITICAL
        assert found.detail.startswith("prepared transaction left over, user ")
        statement = found.remedy.splitlines()[1]
        assert statement == "rollback prepared 'left over';"
        connection.execute(statement.encode())
    assert_ok(small_server_url, NAME, AT_ONCE)


BLOCKER = TableBlocker(7, None, "ada", "psql", None, "idle", "x", 60.0, ["jobs"], True, True, 1, 5.0, False)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, Severity.CRITICAL),
        ({"seconds": 1.9, "waited": None}, Severity.OK),
        ({"seconds": None, "waited": 2.0}, Severity.CRITICAL),
        ({"seconds": None, "waited": None}, Severity.OK),
        ({"seconds": None, "waited": None, "confirmed": True}, Severity.CRITICAL),
        ({"whole_table": False}, Severity.OK),
        ({"whole_table": False, "waited": 10.0}, Severity.WARNING),
        ({"query": None}, Severity.CRITICAL),
    ],
)
def test_a_blocker_has_the_right_severity(values: dict[str, Any], expected: Severity) -> None:
    (found,) = check_blockers(Context("treadle", Limits(), "0.1"), [BLOCKER._replace(**values)])
    assert found.level is expected
