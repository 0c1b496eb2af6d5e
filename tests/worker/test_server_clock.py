"""Workers notice jumps of the server's clock, take no live worker for lost, and continue at once."""

import asyncio
import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.support.clocked_server import JUMPS, NEEDS_LIBRARY, ClockedServer, running_server
from tests.support.doctor import get_finding
from tests.support.workers import auntil, run, running_worker
from treadle import Treadle, events
from treadle.db.queries.worker import ServerTime
from treadle.doctor import Severity
from treadle.worker.server_clock import Reading, ServerClock, jump
from treadle.worker.worker import Worker

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def reading(server_seconds: float, began: float, ended: float) -> Reading:
    return Reading(ServerTime(NOON + timedelta(seconds=server_seconds), 0, False), began, ended)


@pytest.mark.parametrize(
    ("server", "began", "ended", "expected"),
    [
        (10, 10, 10, 0),
        (15, 10, 10, 5),
        (5, 10, 10, -5),
        (15, 10, 20, 0),  # it took 10 s, and nobody knows when the clock was read
        (25, 10, 20, 5),
    ],
)
def test_a_jump_is_what_the_duration_of_the_readings_does_not_explain(
    server: float, began: float, ended: float, expected: float
) -> None:
    assert jump(reading(0, 0, 0), reading(server, began, ended)) == timedelta(seconds=expected)


def test_a_jump_that_only_others_have_noticed_restarts_the_watch(app: Treadle, connection: Connection[Any]) -> None:
    """Forward and back again between two readings: a live worker may have renewed its lease in between."""

    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        clock = ServerClock(worker.connections.maintenance, "w", app.listeners)
        await clock.check()
        await asyncio.sleep(0.2)
        await clock.check()
        assert clock.watched >= 0.2
        connection.execute("select note_clock_jump(now() + interval '1 day', now())")
        await clock.check()
        assert clock.watched < 0.2

    run(app, body)


@pytest.fixture(scope="module")
def module_server() -> Iterator[ClockedServer]:
    with running_server() as server:
        yield server


@NEEDS_LIBRARY
@JUMPS
def test_after_a_jump_jobs_start_at_once_and_none_runs_twice(
    module_server: ClockedServer, seconds: int, caplog: pytest.LogCaptureFixture
) -> None:
    server = module_server
    server.reset()
    app = Treadle(server.url)
    started: list[float] = []
    jumps: list[events.ClockJumped] = []
    app.on(events.ClockJumped)(jumps.append)

    @app.job
    async def short() -> None:
        started.append(time.monotonic())

    @app.job
    async def long() -> None:
        started.append(0)
        await asyncio.sleep(2.5)

    async def body(_: Worker) -> None:
        """The worker with the long lease renews it every 10 s; the other one looks for lost workers every 0.5 s."""
        handle = await long.aenqueue()
        await auntil(lambda: started)
        async with running_worker(app, lease="1.5s", queues=["other"]):
            await asyncio.sleep(0.8)
            server.set(seconds)
            began = time.monotonic()
            await short.aenqueue()
            await auntil(lambda: len(started) > 1)
            assert started[1] - began < 2
            await handle.aresult(30)
            await auntil(lambda: jumps)

    with caplog.at_level(logging.WARNING, "treadle"):
        run(app, body, lease="30s")
    app.close()
    assert started.count(0) == 1
    assert abs(jumps[0].seconds - seconds) < 1
    assert "the clock of the database server has jumped" in caplog.text
    found = get_finding(server.url, "clock_jumps")
    assert found.level is Severity.WARNING
    assert f"set {'forward' if seconds > 0 else 'back'} by" in found.detail
