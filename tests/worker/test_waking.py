"""What wakes a worker: a notification, a timer, a poll."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.workers import auntil, auntil_waiting, one, run
from treadle import Treadle
from treadle.worker import claimer
from treadle.worker.decision import State
from treadle.worker.worker import Worker


def test_a_job_for_later_starts_by_a_timer(app: Treadle) -> None:
    """With a poll of one minute, only a timer can start it."""

    @app.job
    async def late() -> float:
        return time.time()

    async def body(worker: Worker) -> None:
        due = datetime.now(UTC) + timedelta(seconds=1.2)
        handles = [await late.using(delay=0.6).aenqueue(), await late.using(run_at=due).aenqueue()]
        for handle in handles:
            started = await handle.aresult(30)
            row = await handle.ajob()
            # Bounds for a busy machine; the benchmark has the figures.
            assert 0 <= started - row.run_at.timestamp() < 10

    run(app, body, poll="60s")


def test_a_job_is_picked_up_by_a_notification(app: Treadle) -> None:
    @app.job
    async def hello() -> str:
        return "hello"

    async def body(worker: Worker) -> None:
        assert await (await hello.aenqueue()).aresult(30) == "hello"
        for _ in range(20):
            await auntil_waiting(worker)
            assert await (await hello.aenqueue()).aresult(30) == "hello"

    run(app, body, poll="60s")


def test_a_job_committed_just_after_a_notification_was_answered_is_found(
    app: Treadle, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An enqueue just after a notification sends none itself."""
    monkeypatch.setattr(claimer, "RECHECK_SECONDS", (2.0,))

    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        connection, late = connect(), connect(autocommit=False)
        await auntil(lambda: worker.receives_notifications)
        await auntil_waiting(worker)
        late.execute("set local treadle.notify = off")
        late.execute("select enqueue('hello')")
        connection.execute("select setval('wake_clock', 2), pg_notify(channel('work'), '')")
        await auntil(lambda: one(connection, "select last_value = 1 from wake_clock"))
        await auntil_waiting(worker)
        late.commit()
        await auntil(lambda: one(connection, "select status = 'completed' from jobs"))

    run(app, body, poll="10m")


def test_a_job_whose_commit_takes_long_is_found(
    app: Treadle, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sent no notification, and is not yet visible when the first check after the one before is made."""
    monkeypatch.setattr(claimer, "RECHECK_SECONDS", (0.1, 5.0))
    searches: list[float | None] = []
    checked = State.checked

    def counted(self: State, next_due: float | None) -> None:
        searches.append(next_due)
        checked(self, next_due)

    monkeypatch.setattr(State, "checked", counted)

    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        connection, late = connect(), connect(autocommit=False)
        await auntil(lambda: worker.receives_notifications)
        await auntil_waiting(worker)
        late.execute("set local treadle.notify = off")
        late.execute("select enqueue('hello')")
        searches.clear()
        connection.execute("select pg_notify(channel('work'), '')")
        await auntil(lambda: len(searches) == 2)
        late.commit()
        await auntil(lambda: one(connection, "select status = 'completed' from jobs"))

    run(app, body, poll="10m")


def test_the_second_of_two_quick_jobs_does_not_wait_for_the_poll(app: Treadle, connection: Connection[Any]) -> None:
    """An enqueue just after a notification sends none. Here it commits when the worker already waits again."""
    seen: dict[int, float] = {}

    @app.job
    async def hello(n: int) -> None:
        seen[n] = time.monotonic()

    async def body(worker: Worker) -> None:
        await auntil(lambda: worker.receives_notifications)
        for first in range(0, 100, 2):
            await auntil_waiting(worker)
            with psycopg.connect(app.database.url) as late:
                await hello.aenqueue(n=first)
                late.execute("select treadle.enqueue('hello', jsonb_build_object('n', %s::int))", [first + 1])
                await auntil(partial(seen.__contains__, first))
                # The worker waits after that: this commit notifies it.
                await asyncio.sleep(0.01)
                late.commit()
                committed = time.monotonic()
            in_time = committed - seen[first] < 0.08
            if not in_time:  # a busy machine; that one has to be fetched
                worker.claimers[0].wake()
            await auntil(partial(seen.__contains__, first + 1))
            if in_time:
                assert seen[first + 1] - committed < 5
                return
        pytest.fail("it was never quick enough to commit in time")

    run(app, body, poll="60s")


def test_polling_alone_is_enough(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    async def hello() -> str:
        return "hello"

    async def body(worker: Worker) -> None:
        assert await (await hello.aenqueue()).aresult(30) == "hello"
        names = connection.execute(
            "select query from pg_stat_activity where datname = current_database() and query ilike 'listen%%work%%'"
        ).fetchall()
        assert names == []

    run(app, body, poll="50ms", listen=False)
