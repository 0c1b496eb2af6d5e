"""A worker without work sleeps, and wakes when there is something to do."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.workers import auntil, one, run, running_worker
from treadle import Treadle
from treadle.db.queries import worker as worker_queries
from treadle.worker import Worker, notifications, sleeper
from treadle.worker.options import ASLEEP_LEASE

NO_NOTIFICATION = "set treadle.notify = off"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sleeps at once, and looks only when it is told to."""
    monkeypatch.setattr(sleeper, "AFTER_SECONDS", 0.1)
    monkeypatch.setattr(sleeper, "AWAKE_SECONDS", 0.1)
    monkeypatch.setattr(sleeper, "CHECK_SECONDS", 0.02)
    monkeypatch.setattr(sleeper, "LOOK_SECONDS", 3600.0)


@pytest.fixture
def hello(app: Treadle) -> Any:
    @app.job
    async def hello() -> str:
        return "hello"

    return hello


class Looks:
    """Counts the looks of a worker."""

    def __init__(self, worker: Worker) -> None:
        self.number = 0
        self._ask = worker.notifications.listener.ask
        worker.notifications.listener.ask = self.ask  # type: ignore[method-assign]

    async def ask(self, query: Any) -> Any:
        found = await self._ask(query)
        self.number += 1
        return found


async def auntil_asleep(worker: Worker) -> None:
    """Until it sleeps and has looked."""
    await auntil(lambda: worker.sleeper.asleep)
    looks = Looks(worker)
    worker.sleeper.look()
    await auntil(lambda: looks.number)
    assert worker.sleeper.asleep


def test_a_worker_without_work_falls_asleep_and_its_row_says_so(
    app: Treadle, hello: Any, connection: Connection[Any]
) -> None:
    async def body(worker: Worker) -> None:
        await auntil_asleep(worker)
        await auntil(lambda: one(connection, "select asleep_at is not null from workers"))
        assert one(connection, "select lease from workers") == ASLEEP_LEASE

    run(app, body, lease="3s")


def test_a_notification_wakes_it_and_its_lease_is_valid_before_it_claims(
    app: Treadle, connection: Connection[Any]
) -> None:
    @app.job
    async def lease() -> list[Any]:
        row = connection.execute("select extract(epoch from lease)::int, asleep_at from workers").fetchone()
        return list(row or ())

    async def body(worker: Worker) -> None:
        await auntil_asleep(worker)
        # As its keeper does, but now.
        connection.execute("select renew_workers(%s, '2 hours', true)", [[worker.worker_id]])
        assert await (await lease.aenqueue()).aresult(30) == [30, None]
        assert not worker.slots.asleep

    run(app, body, lease="30s", poll="60s")


def test_it_wakes_for_a_future_job_in_time(app: Treadle, hello: Any, connect: Connect) -> None:
    async def body(worker: Worker) -> None:
        await auntil_asleep(worker)
        quiet = connect()
        quiet.execute(NO_NOTIFICATION)
        quiet.execute("insert into jobs (job_type, run_at) values ('hello', clock_timestamp() + interval '1 second')")
        assert worker.sleeper.asleep
        worker.sleeper.look()
        await auntil(lambda: one(quiet, "select status from jobs") == "completed")

    run(app, body, poll="60s")


def test_a_lost_notification_is_found_by_the_next_look(
    app: Treadle, hello: Any, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sleeper, "LOOK_SECONDS", 0.3)

    async def body(worker: Worker) -> None:
        await auntil(lambda: worker.sleeper.asleep)
        quiet = connect()
        quiet.execute(NO_NOTIFICATION)
        quiet.execute("select enqueue('hello')")
        await auntil(lambda: one(quiet, "select status from jobs") == "completed")

    run(app, body, poll="0.3s")
