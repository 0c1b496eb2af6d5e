"""Waiting until a job has finished."""

import asyncio
import sys
import threading
import time
import traceback
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from chaos.proxy import Proxy
from psycopg import Connection
from psycopg_pool import AsyncConnectionPool

from tests.conftest import Connect
from tests.support.workers import auntil, one, until
from treadle import JobQueue, Treadle
from treadle.watching import watch


@pytest.mark.parametrize("poll", [1, 2])
def test_a_completion_that_commits_as_a_caller_begins_to_wait_is_found_soon(
    app: Treadle, queue: JobQueue, connect: Connect, monkeypatch: pytest.MonkeyPatch, poll: int
) -> None:
    """The transaction saw no waiting caller, and committed after the first or the second poll."""
    monkeypatch.setattr(watch, "POLL_SECONDS", 60.0)
    late = connect(autocommit=False)
    handle = app.handle(queue.enqueue("a"))
    (job,) = queue.claim(["a"])
    late.execute("select complete_job(%s, '7', %s, %s)", [job.id, job.lease, "worker-1"])
    real, polls = app.watch.until_finished.wake, 0

    def wake(ids: list[Any]) -> None:
        nonlocal polls
        polls += 1
        if polls == poll:
            late.commit()
        real(ids)

    monkeypatch.setattr(app.watch.until_finished, "wake", wake)
    assert handle.result(30) == 7
    app.close()


def test_a_caller_that_waits_for_a_long_time_keeps_being_notified(
    app: Treadle, queue: JobQueue, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_SPAN", timedelta(seconds=0.3))
    waiting = app.watch.finished(queue.enqueue("a"))
    seen: set[int] = set()
    end = time.monotonic() + 10
    while len(seen) < 4 and time.monotonic() < end:
        seen.add(one(connection, "select last_value from awaited"))
    assert len(seen) == 4
    queue.complete(*queue.claim(["a"]))
    waiting.result(30)
    app.close()


def test_a_result_is_awaited_on_the_pool_of_the_caller(url: str, queue: JobQueue) -> None:
    async def body() -> None:
        async with AsyncConnectionPool[psycopg.AsyncConnection[Any]](url, open=False) as pool:
            app = Treadle(pool)

            @app.job
            async def hello() -> int:
                return 3

            handle = await hello.aenqueue()
            asked = pool.get_stats()["requests_num"]
            waiting = asyncio.create_task(handle.aresult(30))
            await auntil(lambda: pool.get_stats()["requests_num"] > asked)  # it has polled once and found nothing
            (row,) = await asyncio.to_thread(queue.claim, ["hello"])
            await asyncio.to_thread(queue.complete, row, 4)
            assert await waiting == 4
            with pytest.raises(TimeoutError):
                await (await hello.aenqueue()).aresult(0.3)

    asyncio.run(body())


def test_a_watch_on_a_hanging_connection_can_be_closed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "POLL_SECONDS", 0.25)
    monkeypatch.setattr(watch, "CLOSE_SECONDS", 0.5)
    proxy = Proxy(url)
    app = Treadle(proxy.url)
    try:
        job_id = app.queue.enqueue("a")
        woken = app.watch.finished(job_id)
        until(lambda: _watches_in("_listen"))
        proxy.go_silent()
        until(lambda: _watches_in("_poll"))
        app.watch.forget(job_id, woken)
        app.watch.close()  # would block for ever if it waited for the connection
    finally:
        proxy.close()
        app.close()


def _watches_in(function: str) -> bool:
    """Whether the watching thread stays in this function for longer than between two polls."""
    watching = [each.ident for each in threading.enumerate() if each.name == "treadle-watch"]

    def now() -> bool:
        frame = sys._current_frames().get(watching[-1] or 0)
        return frame is not None and function in [each.name for each in traceback.extract_stack(frame)]

    began = time.monotonic()
    while time.monotonic() - began < 2 * watch.POLL_SECONDS:
        if not now():
            return False
        time.sleep(0.01)
    return True
