"""A worker inside a program: its options, which jobs it takes, and what it costs."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import auntil, run
from treadle import InvalidArgument, JobQueue, Treadle
from treadle.db.query import Query
from treadle.db.reconnecting import ReconnectingConnection
from treadle.worker.options import WorkerOptions
from treadle.worker.worker import Worker


def test_job_types_that_are_not_known_here_are_left_alone(app: Treadle, queue: JobQueue) -> None:
    @app.job
    async def known() -> None: ...

    @app.job
    async def not_chosen() -> None: ...

    async def body(worker: Worker) -> None:
        unknown, unchosen = queue.enqueue("unknown"), await not_chosen.aenqueue()
        await (await known.aenqueue()).aresult(30)
        for row in (queue.get(unknown), await unchosen.ajob()):
            assert (row.status, row.attempts) == ("pending", 0)

    run(app, body, types=["known"])


def test_a_worker_registers_and_leaves(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        rows = connection.execute("select worker_id, job_types, concurrency, pid, lost_at from workers").fetchall()
        assert rows == [(worker.worker_id, ["hello"], 7, os.getpid(), None)]

    run(app, body, concurrency=7, keeper_process=True)
    assert connection.execute("select count(*) from workers").fetchone() == (0,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concurrency": 0}, "concurrency must be an integer from 1"),
        ({"types": ["nope"]}, "no job type 'nope' here; known types: hello"),
        ({"types": "hello"}, "must be lists"),
        ({"lease": "10ms"}, "lease must be at least a second"),
        ({"poll": 0}, "poll must be at least"),
        ({"crash_limit": 0}, "crash_limit must be"),
    ],
)
def test_bad_options_are_refused(app: Treadle, options: WorkerOptions, message: str) -> None:
    @app.job
    async def hello() -> None: ...

    with pytest.raises(InvalidArgument, match=message):
        app.worker(**options)


def test_an_application_without_jobs_has_nothing_to_work_on(app: Treadle) -> None:
    with pytest.raises(InvalidArgument, match=r"decorate a function with @app\.job"):
        app.worker()


# What an idle worker does regularly, and how many seconds pass between two of each.
IDLE_STATEMENTS = {
    "next_due(": 1.0,
    "clock_and_losses(": 10 / 3,
    "find_due_schedules(": 5.0,
    "count_minutes(": 5.0,
    "count_depths(": 10.0,
    "expire_jobs(": 10.0,
}
# The lease is renewed by another process, three times before it runs out.
RENEWAL_SECONDS = 10 / 3
# Once a minute: pruning and the like.
STATEMENTS_PER_MINUTE = 12


@pytest.mark.fresh_database
def test_an_idle_worker_is_quiet(app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/worker.md says: its own statements, and those of the process that renews its lease."""
    per_second = sum(1 / every for every in (*IDLE_STATEMENTS.values(), RENEWAL_SECONDS)) + STATEMENTS_PER_MINUTE / 60
    assert per_second < 2.5

    real, statements = ReconnectingConnection.run, list[str]()

    async def noted(connection: ReconnectingConnection, query: Query[Any]) -> Any:
        statements.append(query.text)
        return await real(connection, query)

    monkeypatch.setattr(ReconnectingConnection, "run", noted)

    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        await (await hello.aenqueue()).aresult(30)
        await auntil(lambda: worker.receives_notifications)
        await asyncio.sleep(2)  # for two seconds after a claim it ticks: that is not idle
        statements.clear()
        began = time.monotonic()
        renewals: set[Any] = set()
        while time.monotonic() < began + 6 or len(renewals) < 2:
            renewals |= set(connection.execute("select seen_at from workers").fetchall())
            await asyncio.sleep(0.1)  # far more often than a lease is renewed
        seen, seconds = list(statements), time.monotonic() - began

        def most(every: float) -> float:
            return 1 + seconds / (0.9 * every)  # with the jitter of services.py

        assert len(renewals) <= 1 + most(RENEWAL_SECONDS)
        others = list(seen)
        for name, every in IDLE_STATEMENTS.items():
            found = [text for text in seen if name in text]
            assert len(found) <= most(every), name
            others = [text for text in others if text not in found]
        assert len(others) <= STATEMENTS_PER_MINUTE

    run(app, body, lease="10s", keeper_process=True)


def test_nothing_is_left_behind(app: Treadle) -> None:
    """Threads, file descriptors and tasks, after workers have come and gone."""

    @app.job
    def hello() -> None: ...

    async def body(worker: Worker) -> None:
        await (await hello.aenqueue()).aresult(30)

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    run(app, body, keeper_process=True)
    before = descriptors()
    for _ in range(3):
        run(app, body, keeper_process=True)
    assert descriptors() <= before + 1
