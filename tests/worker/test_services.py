"""Services: how often they are called, and what becomes of their errors."""

import asyncio
import logging
import time
from contextlib import suppress
from typing import Any

import pytest

from tests.support.workers import auntil, run
from treadle import Treadle
from treadle.db.reconnecting import DatabaseUnavailable
from treadle.worker import tasks
from treadle.worker.services import Delay, Service, within
from treadle.worker.worker import Worker


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
        await running.cancel(30)
        assert all(each is not None and each.done() for each in starts)
        await asyncio.sleep(0.05)
        assert len(starts) == 3

    with caplog.at_level(logging.ERROR, "treadle"):
        asyncio.run(body())
    ends = [record.getMessage().rpartition("<locals>.")[2] for record in caplog.records]
    assert ends == ["part ended unexpectedly; it is started again"] * 2


def test_a_part_that_hangs_is_started_again(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "RESTART_SECONDS", 0.01)
    monkeypatch.setattr(tasks, "CHECK_SECONDS", 0.01)
    starts: list[str] = []

    async def hangs() -> None:
        starts.append("hangs")
        await asyncio.Event().wait()

    async def works() -> None:
        starts.append("works")
        while True:
            await asyncio.sleep(0.005)

    async def waits() -> None:
        starts.append("waits")
        await within(asyncio.Event().wait(), 1000)

    async def waits_for_ever() -> None:
        starts.append("waits")
        with tasks.idle():
            await asyncio.Event().wait()

    async def body() -> None:
        running = tasks.Tasks()
        for each in (hangs, works, waits, waits_for_ever):
            running.start(each)
        await auntil(lambda: starts.count("hangs") == 3)
        await running.cancel(30)

    with caplog.at_level(logging.ERROR, "treadle"):
        asyncio.run(body())
    assert (starts.count("works"), starts.count("waits")) == (1, 2)
    assert "hangs has made no progress for 0.1 seconds" in caplog.text


def test_a_part_that_hangs_and_cannot_be_cancelled_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "CHECK_SECONDS", 0.01)
    told: list[bool] = []

    async def body() -> None:
        end = asyncio.Event()

        async def stubborn() -> None:
            for _ in range(2):
                with suppress(asyncio.CancelledError):
                    await end.wait()

        running = tasks.Tasks(lambda: told.append(True))
        running.start(stubborn)
        await auntil(lambda: told)
        await running.cancel(30)

    asyncio.run(body())
    assert told == [True]


def test_no_part_of_an_idle_or_full_worker_seems_to_hang(
    app: Treadle, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "CHECK_SECONDS", 0.2)
    checks: list[tasks.Tasks] = []
    real = tasks.Tasks._check

    def check(each: tasks.Tasks) -> None:
        checks.append(each)
        real(each)

    monkeypatch.setattr(tasks.Tasks, "_check", check)
    go = asyncio.Event()

    @app.job
    async def waits() -> None:
        await go.wait()

    async def body(worker: Worker) -> None:
        await auntil(lambda: len(checks) >= 2 * 13)
        await waits.aenqueue()
        handle = await waits.aenqueue()
        checks.clear()
        await auntil(lambda: len(checks) >= 2 * 13)
        go.set()
        await handle.aresult(30)

    run(app, body, concurrency=1)
    assert "no progress" not in caplog.text


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
