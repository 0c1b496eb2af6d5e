"""Inline mode: a job runs when it is enqueued."""

import asyncio

import pytest

from treadle import (
    Status,
    Treadle,
)
from treadle.testing import DrainLimit, Harness


def test_inline_a_job_runs_when_it_is_enqueued(app: Treadle, harness: Harness) -> None:
    @app.job
    def double(n: int) -> int:
        return 2 * n

    with harness.inline():
        handle = double.enqueue(n=4)
        assert (handle.status(), handle.result()) == (Status.COMPLETED, 8)
    assert double.enqueue(n=5).status() is Status.PENDING


def test_inline_the_error_of_a_handler_is_raised_by_enqueue(app: Treadle, harness: Harness) -> None:
    @app.job
    def broken() -> None:
        raise KeyError("gone")

    with harness.inline(), pytest.raises(KeyError, match="gone"):
        broken.enqueue()


def test_inline_a_handler_can_wait_for_a_job_that_it_enqueues(app: Treadle, harness: Harness) -> None:
    @app.job
    def inner(n: int) -> int:
        return n + 1

    @app.job
    def outer() -> int:
        return inner.enqueue(n=1).result(timeout=5) + inner.enqueue(n=2).result(timeout=5)

    @app.job
    async def aouter() -> int:
        return await (await inner.aenqueue(n=1)).aresult(timeout=5)

    with harness.inline():
        assert outer.enqueue().result() == 5
        assert aouter.enqueue().result() == 2


def test_inline_a_job_that_enqueues_itself_ends_with_a_clear_error(app: Treadle, harness: Harness) -> None:
    @app.job
    def again() -> None:
        again.enqueue()

    with harness.inline(), pytest.raises(DrainLimit, match="50 deep"):
        again.enqueue()


def test_inline_a_delay_still_waits_for_the_clock(app: Treadle, harness: Harness) -> None:
    @app.job
    def later() -> None: ...

    with harness.inline():
        handle = later.using(delay="1h").enqueue()
        assert handle.status() is Status.PENDING
        harness.travel("1h")
        harness.drain()
        assert handle.status() is Status.COMPLETED


def test_inline_sync_code_on_an_event_loop_runs_its_jobs_too(app: Treadle, harness: Harness) -> None:
    @app.job
    def double(n: int) -> int:
        return 2 * n

    async def endpoint() -> int:
        return double.enqueue(n=4).result(timeout=5)

    with harness.inline():
        assert asyncio.run(endpoint()) == 8


def test_inline_an_async_handler_that_calls_enqueue_has_its_job_run_after_it(app: Treadle, harness: Harness) -> None:
    ran: list[str] = []

    @app.job
    def inner() -> None:
        ran.append("inner")

    @app.job
    async def outer() -> None:
        inner.enqueue()
        ran.append("outer")

    with harness.inline():
        outer.enqueue()
    assert ran == ["outer", "inner"]


def test_inline_reading_runs_nothing(app: Treadle, harness: Harness) -> None:
    """Threads that watch jobs read, too: they must not run any."""

    @app.job
    def earlier() -> None: ...

    handle = earlier.enqueue()
    with harness.inline():
        assert app.queue.counts()[Status.PENDING] == 1
        assert handle.status() is Status.PENDING
