"""Periodic maintenance: floors move, finished jobs are pruned and counted."""

import asyncio
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from tests.support.workers import auntil, one, run
from treadle import JobCancelled, JobQueue, Treadle
from treadle.db.reconnecting import ReconnectingConnection
from treadle.worker import maintenance
from treadle.worker.steps import Steps
from treadle.worker.worker import Worker


def test_floors_move_and_old_jobs_are_pruned(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "PRUNE_EVERY", 0.1)

    @app.job
    async def hello() -> None: ...

    connection.execute(
        "insert into jobs (job_type, status, finished_at) values ('old', 'completed', now() - interval '1 year')"
    )

    async def body(worker: Worker) -> None:
        handle = await hello.aenqueue()
        await handle.aresult(30)
        await auntil(lambda: one(connection, "select count(*) > 0 from floors where job_type = 'hello'"))
        await auntil(lambda: one(connection, "select count(*) from jobs where job_type = 'old'") == 0)

    run(app, body)


def test_finished_jobs_are_pruned_by_status_and_age(url: str, queue: JobQueue, connection: Connection[Any]) -> None:

    app = Treadle(url, keep={"completed": "1h", "failed": None})
    for status in ("completed", "failed", "cancelled"):
        connection.execute(
            """insert into jobs (job_type, status, finished_at) select 'a', %s, now() - age
            from unnest('{5 minutes, 2 hours, 20 days, 90 days}'::interval[]) as age""",
            [status],
        )

    async def body() -> int:
        connection = ReconnectingConnection(url, "treadle", "test")
        try:
            return await maintenance.prune(connection, Steps(*maintenance.PRUNE_STEPS), app.workload.keep)
        finally:
            await connection.close()

    assert asyncio.run(body()) == 3 + 2
    assert dict(connection.execute("select status, count(*) from jobs group by 1").fetchall()) == {
        "completed": 1,
        "failed": 4,
        "cancelled": 2,
    }


def test_errors_are_deleted_with_their_job(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    for name in ("a", "b"):
        job_id = queue.enqueue(name)
        (row,) = queue.claim([name])
        queue.fail(row, "broken", final=True)
        assert [error.error for error in queue.errors(job_id)] == ["broken"]
    connection.execute("delete from jobs where job_type = 'a'")
    assert connection.execute("select count(*) from errors").fetchone() == (1,)
    queue.prune("failed", 0)
    assert connection.execute("select count(*) from errors").fetchone() == (0,)


def test_finished_jobs_are_counted_for_charts(
    app: Treadle, queue: JobQueue, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "COUNT_EVERY", 0.1)

    @app.job
    async def hello() -> None: ...

    queue.complete(queue.enqueue("by hand"))
    connection.execute("update jobs set finished_at = finished_at - interval '5 seconds'")
    connection.execute("update meter set reached = clock_timestamp() - interval '1 minute'")

    async def body(worker: Worker) -> None:
        await auntil(lambda: one(connection, "select sum(completed) from minutes") == 1)

    run(app, body)


@pytest.mark.parametrize("seconds", [None, 1.0])
def test_under_a_short_statement_timeout_jobs_are_counted_in_smaller_steps(own_url: str, seconds: float | None) -> None:
    """Of the role, or if the server does not answer in time."""
    with psycopg.connect(own_url, autocommit=True, options="-c search_path=treadle,public") as connection:
        # Ten jobs in each of 16 minutes, and each minute takes 0.1 s to write: 1.6 s in all.
        connection.execute("""insert into jobs (job_type, status, finished_at)
            select 'a', 'completed', date_trunc('hour', now()) - n * interval '6 seconds'
            from generate_series(1, 160) as n""")
        connection.execute("update meter set reached = now() - interval '3 hours'")
        connection.execute("""create function pg_temp.wait() returns trigger language plpgsql as
            'begin perform pg_sleep(0.1); return new; end'""")
        connection.execute("create trigger slow before insert on minutes for each row execute function pg_temp.wait()")

        async def count() -> int:
            limit = "-c statement_timeout=1000" if seconds is None else ""
            slow = ReconnectingConnection(make_conninfo(own_url, options=limit), "treadle", "test", seconds)
            steps = Steps(160, 10)
            try:
                return await maintenance.count(slow, steps) + await maintenance.count(slow, steps)
            finally:
                await slow.close()

        assert asyncio.run(count()) >= 16
        assert one(connection, "select sum(completed) from minutes") == 160


def test_a_worker_cancels_expired_jobs_also_of_types_that_it_does_not_run(
    app: Treadle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "EXPIRE_EVERY", 0.1)
    job_id = app.queue.enqueue("theirs", expires="1ms")

    @app.job
    async def mine() -> None: ...

    async def body(worker: Worker) -> None:
        with pytest.raises(JobCancelled, match="expired: no worker claimed it"):
            await app.handle(job_id).aresult(30)

    run(app, body)
