"""Jobs inserted in SQL with any values that the table allows are shown everywhere and hide no other job."""

import asyncio
from typing import Any
from uuid import UUID

import httpx
import pytest
from psycopg import Connection

from tests.support.workers import one
from treadle import JobQueue, Treadle
from treadle.db.queries import listing as listing_queries
from treadle.db.queries import operations as operation_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.doctor.examine import examine
from treadle.operations.details import get_details
from treadle.operations.overview import overview
from treadle.web.dashboard import Role, Visitor, dashboard_app
from treadle.words.changes import Action
from treadle.words.listing import JobFilter

TIMES = ["infinity", "-infinity", "0044-03-15 BC", "12000-01-01"]
NULLS = ["progress", "events_count", "attempts", "max_attempts", "created_at"]


def assert_shown_everywhere(app: Treadle, *jobs: UUID) -> None:
    assert overview(app.database).lanes is not None
    for job in jobs:
        assert get_details(app.database, job).job.id == job
        assert app.handle(job).why().sentence
    assert {each.id for each in app.database.read(snapshot_queries.find_snapshots(list(jobs)))} == set(jobs)
    assert {each.id for each in app.database.read(listing_queries.find_jobs(JobFilter(), None, 50)).jobs} == set(jobs)
    assert examine(app.database)
    assert pages(app, *jobs) == {200}


def pages(app: Treadle, *jobs: UUID) -> set[int]:
    """The status codes of all pages."""
    paths = ["/", "/jobs", "/health"]
    for job in jobs:
        paths += [f"/jobs/{job}", f"/api/jobs/{job}", f"/api/jobs/{job}/why"]

    async def ask() -> set[int]:
        served = dashboard_app(app, authorize=lambda _: Visitor(Role.OPERATOR, "ada"))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(served), base_url="http://here") as client:
            answers = {(await client.get(path)).status_code for path in paths}
        await app.aclose()
        return answers

    return asyncio.run(ask())


@pytest.mark.parametrize("column", ["run_at", pytest.param("created_at", marks=pytest.mark.long)])
def test_jobs_with_times_that_python_cannot_represent_are_shown(
    app: Treadle, queue: JobQueue, connection: Connection[Any], column: str
) -> None:
    jobs = [
        one(connection, f"insert into jobs (job_type, {column}) values ('a', '{moment}') returning id")
        for moment in TIMES
    ]
    assert_shown_everywhere(app, *jobs)
    changed = app.database.run(operation_queries.change_jobs(Action.CANCEL, jobs, "ada"))
    assert [each.outcome for each in changed] == ["done"] * len(jobs)
    assert_shown_everywhere(app, *jobs)


@pytest.mark.parametrize("column", NULLS)
def test_jobs_with_null_in_a_nullable_column_are_shown(
    app: Treadle, queue: JobQueue, connection: Connection[Any], column: str
) -> None:
    jobs = [
        one(connection, f"insert into jobs (job_type, status, {column}) values ('a', '{status}', null) returning id")
        for status in ("pending", "running", "failed")
    ]
    assert_shown_everywhere(app, *jobs)


def test_a_job_with_an_unknown_pace_is_shown(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    job = one(
        connection, """insert into jobs (job_type, status, pace) values ('a', 'running', '{"rows": 3}') returning id"""
    )
    assert_shown_everywhere(app, job)
    connection.execute("update jobs set pace = '[1]'")
    assert_shown_everywhere(app, job)


def test_an_infinite_wait_is_not_counted(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    connection.execute("""insert into jobs (job_type, status, run_at, claimed_at, started_at, finished_at)
        values ('a', 'completed', '-infinity', now(), 'infinity', clock_timestamp())""")
    connection.execute("select count_minutes('0')")
    row = connection.execute("select completed, waited, ran from minutes").fetchone()
    assert row == (1, 0, 0)
    assert overview(app.database).rate >= 0


def test_reading_leaves_a_callers_transaction_unchanged(connection: Connection[Any], queue: JobQueue) -> None:
    job = queue.enqueue("a")
    with connection.transaction():
        app = Treadle(connection)
        assert app.handle(job).why().name == "no_worker"
        assert one(connection, "show statement_timeout") == "0"
        assert one(connection, "show transaction_read_only") == "off"


def test_a_change_of_many_jobs_uses_one_transaction_id(queue: JobQueue, connection: Connection[Any]) -> None:
    def transaction_ids_used() -> int:
        ids = queue.enqueue_many("a", [{}] * 100)
        with connection.transaction():
            before: int = one(connection, "select pg_current_xact_id()::text::bigint")
            connection.execute("select operate('cancel', %s)", [ids])
        after: int = one(connection, "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
        return after - before

    # Concurrent tests use transaction ids as well, many of them on a busy machine.
    assert any(transaction_ids_used() < 50 for _ in range(20))
