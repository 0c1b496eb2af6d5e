"""What workers do for the queue beside their jobs: recovering and pruning."""

import asyncio
from typing import Any

import pytest
from psycopg import Connection

from tests.workers import auntil, count, one, run
from treadle import (
    JobQueue,
    Treadle,
    events,
)
from treadle.worker import Worker
from treadle.worker import worker as worker_module


def test_upkeep_happens_by_itself(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    recovered: list[events.JobRecovered] = []
    app.on(events.JobRecovered)(recovered.append)

    @app.job
    async def hello() -> None: ...

    other = queue.enqueue("elsewhere")
    by_hand = queue.enqueue("by hand")
    connection.execute("select register_worker('gone', '1 second', '{elsewhere}')")
    connection.execute("update workers set seen_at = now() - interval '1 minute'")
    connection.execute("select claim_jobs('gone', '{elsewhere}')")
    connection.execute("select claim_jobs('somebody by hand', '{by hand}')")
    connection.execute("update jobs set claimed_at = now() - interval '1 hour'")

    async def body(worker: Worker) -> None:
        await auntil(lambda: recovered)
        await auntil(lambda: count(connection, "status = 'pending'") == 1)

    run(app, body, lease="1s", keeper_process=True)
    assert [(each.job_id, each.worker_id, each.status) for each in recovered] == [(other, "gone", "pending")]
    assert queue.get(by_hand).status == "claimed", "holders without a lease are left alone"


def test_ended_jobs_are_pruned_as_asked(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    from treadle.db.line import Line
    from treadle.worker import upkeep

    app = Treadle(url, keep={"completed": "1h", "failed": None})
    for status in ("completed", "failed", "cancelled"):
        connection.execute(
            """insert into jobs (job_type, status, finished_at) select 'a', %s, now() - age
            from unnest('{5 minutes, 2 hours, 20 days, 90 days}'::interval[]) as age""",
            [status],
        )

    async def body() -> int:
        line = Line(url, "test")
        try:
            return await upkeep.prune(line, "treadle", app.keep)
        finally:
            await line.close()

    assert asyncio.run(body()) == 3 + 2
    assert dict(connection.execute("select status, count(*) from jobs group by 1").fetchall()) == {
        "completed": 1,
        "failed": 4,
        "cancelled": 2,
    }


def test_errors_go_with_their_job(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    for name in ("a", "b"):
        job_id = queue.enqueue(name)
        (row,) = queue.claim([name])
        queue.fail(row, "broken", final=True)
        assert [error.error for error in queue.errors(job_id)] == ["broken"]
    connection.execute("delete from jobs where job_type = 'a'")
    assert connection.execute("select count(*) from errors").fetchone() == (1,)
    queue.prune("failed", 0)
    assert connection.execute("select count(*) from errors").fetchone() == (0,)


def test_what_ends_is_counted_for_charts(
    app: Treadle, queue: JobQueue, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "COUNT_SECONDS", 0.1)

    @app.job
    async def hello() -> None: ...

    queue.complete(queue.enqueue("by hand"))
    connection.execute("update jobs set finished_at = finished_at - interval '5 seconds'")
    connection.execute("update meter set reached = clock_timestamp() - interval '1 minute'")

    async def body(worker: Worker) -> None:
        await auntil(lambda: one(connection, "select sum(completed) from minutes") == 1)

    run(app, body)
