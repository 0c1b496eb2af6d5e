"""Services: how often they are called, and what becomes of their errors."""

import asyncio
import logging
import time
from typing import Any

import pytest

from tests.support.workers import auntil
from treadle.db.reconnecting import DatabaseUnavailable
from treadle.worker import tasks
from treadle.worker.services import Delay, Service, within


def drive(service: Service, until: list[object], number: int) -> list[DatabaseUnavailable]:
    """Run it until the list has this many entries; returns the outages it reported."""
    outages: list[DatabaseUnavailable] = []

    async def body() -> None:
        running = asyncio.create_task(service.run(outages.append))
        await auntil(lambda: len(until) >= number)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(body())
    return outages


def test_a_service_that_fails_is_called_again(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[object] = []

    async def fails() -> None:
        calls.append(None)
        if len(calls) == 1:
            raise RuntimeError("unexpected")

    with caplog.at_level(logging.ERROR, "treadle"):
        drive(Service(fails, 0.01), calls, 3)
    (record,) = caplog.records
    assert record.getMessage().endswith("fails failed; retrying")


def test_an_unavailable_database_is_reported_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[object] = []

    async def unavailable() -> None:
        calls.append(None)
        raise DatabaseUnavailable("no answer")

    with caplog.at_level(logging.ERROR, "treadle"):
        assert len(drive(Service(unavailable, 0.01), calls, 3)) >= 2
    assert caplog.records == []


def test_a_service_may_choose_its_next_delay_once() -> None:
    calls: list[object] = []

    async def sooner() -> Delay | None:
        calls.append(time.monotonic())
        return Delay(0.01) if len(calls) < 3 else None

    async def body() -> None:
        wake = asyncio.Event()
        wake.set()  # the first call comes at once
        running = asyncio.create_task(Service(sooner, 600, wake).run(lambda _: None))
        await auntil(lambda: len(calls) == 3)
        await asyncio.sleep(0.1)
        assert len(calls) == 3, "after that it is called every 600 s"
        wake.set()
        await auntil(lambda: len(calls) == 4)
        running.cancel()

    asyncio.run(body())


def test_a_part_that_fails_or_is_cancelled_is_started_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "RESTART_SECONDS", 0.01)
    starts: list[asyncio.Task[Any] | None] = []

    async def part() -> None:
        starts.append(asyncio.current_task())
        if len(starts) == 1:
            raise RuntimeError("unexpected")
        await asyncio.Event().wait()

    async def body() -> None:
        running = tasks.Tasks()
        running.start(part)
        await auntil(lambda: len(starts) == 2)
        for each in asyncio.all_tasks() - {asyncio.current_task()}:  # as a handler may do
            each.cancel()
        await auntil(lambda: len(starts) == 3)
        await running.cancel()
        assert all(each is not None and each.done() for each in starts)
        await asyncio.sleep(0.05)
        assert len(starts) == 3

    with caplog.at_level(logging.ERROR, "treadle"):
        asyncio.run(body())
    ends = [record.getMessage().rpartition("<locals>.")[2] for record in caplog.records]
    assert ends == ["part ended unexpectedly; it is started again"] * 2


def test_waiting_with_a_time_limit_does_not_lose_a_cancellation() -> None:
    async def body() -> None:
        came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = asyncio.create_task(within(came, 30))
        await asyncio.sleep(0)
        came.set_result(None)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(body())
