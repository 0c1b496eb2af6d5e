"""drain(): jobs run in this process, as a worker would run them."""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from treadle import (
    Backoff,
    Cancel,
    Cron,
    Every,
    InvalidArgument,
    Job,
    JobFailed,
    Rate,
    Retries,
    Retry,
    Snooze,
    Status,
    Treadle,
    chain,
    current_job,
    events,
    group,
)
from treadle.testing import Drained, DrainLimit, Harness


def test_jobs_go_through_the_states_of_a_worker(app: Treadle, harness: Harness) -> None:
    @app.job
    def resize(job: Job, width: int) -> str:
        job.progress(40, stage="resizing")
        job.event("resized", width=width)
        return f"{width} px"

    handle = resize.enqueue(width=7)
    assert handle.status() is Status.PENDING
    assert harness.drain() == Drained(completed=1)
    assert handle.result() == "7 px"
    assert handle.progress().stage == "resizing"
    assert [each.name for each in handle.events(follow=False)] == [
        "enqueued", "claimed", "started", "resized", "completed",
    ]  # fmt: skip
    assert harness.drain() == Drained()


def test_a_sync_handler_runs_on_the_thread_of_the_test_and_no_event_loop_runs_there(
    app: Treadle, harness: Harness
) -> None:
    seen: list[Any] = []
    variable = ContextVar("variable", default=0)
    variable.set(7)

    @app.job
    def here(job: Job) -> None:
        job.save({"n": 1})  # refused on an event loop
        seen.append((threading.get_ident(), variable.get(), current_job().type))

    @app.job
    async def there() -> None:
        seen.append((threading.get_ident() != thread, variable.get(), current_job().type))

    thread = threading.get_ident()
    here.enqueue()
    there.enqueue()
    harness.drain()
    assert seen == [(thread, 7, "here"), (True, 7, "there")]


def test_process_true_runs_in_this_process(app: Treadle, harness: Harness) -> None:
    from tests.support.apps import heavy

    handle = app.job(process=True)(heavy).enqueue()
    pids: list[int] = []
    app.on(events.JobStarted)(lambda _: pids.append(os.getpid()))
    harness.drain()
    assert (handle.status(), pids) == (Status.COMPLETED, [os.getpid()])


def test_the_highest_priority_is_first_even_if_a_handler_enqueues_it(app: Treadle, harness: Harness) -> None:
    ran: list[str] = []

    @app.job
    def urgent(name: str) -> None:
        ran.append(name)

    @app.job
    def first() -> None:
        ran.append("first")
        urgent.using(priority=500).enqueue(name="urgent")

    urgent.enqueue(name="low")
    first.using(priority=200).enqueue()
    assert harness.drain().completed == 3
    assert ran == ["first", "urgent", "low"]


def test_the_error_of_a_handler_is_raised_and_its_job_is_retried_later(app: Treadle, harness: Harness) -> None:
    @app.job(retry=Retries(backoff=Backoff(first="10s", jitter=0)))
    def fetch(job: Job) -> int:
        if job.attempt == 1:
            raise ConnectionError("no route to host")
        return job.attempt

    handle = fetch.enqueue()
    with pytest.raises(ConnectionError, match="no route to host") as raised:
        harness.drain()
    assert raised.traceback[-1].name == "fetch"
    assert handle.status() is Status.PENDING
    assert harness.drain() == Drained()
    harness.travel("10s")
    assert harness.drain() == Drained(completed=1)
    assert handle.result() == 2


def test_without_raise_errors_the_drain_continues(app: Treadle, harness: Harness) -> None:
    @app.job(retry=Retries(0))
    def broken() -> None:
        raise KeyError("gone")

    @app.job
    def fine() -> None: ...

    broken.enqueue()
    fine.enqueue()
    assert harness.drain(raise_errors=False) == Drained(completed=1, failed=1)


def test_retry_snooze_and_cancel_are_no_errors(app: Treadle, harness: Harness) -> None:
    @app.job
    def control(how: str) -> None:
        raise {"retry": Retry(after="1h"), "snooze": Snooze("1h"), "cancel": Cancel("not needed")}[how]

    control.enqueue_many([{"how": "retry"}, {"how": "snooze"}, {"how": "cancel"}])
    assert harness.drain() == Drained(retried=1, released=1, cancelled=1)


@pytest.mark.parametrize("raise_errors", [True, False])
def test_what_ends_a_test_is_always_raised(app: Treadle, harness: Harness, raise_errors: bool) -> None:
    @app.job
    def handler() -> None:
        pytest.fail("in the handler")

    handler.enqueue()
    with pytest.raises(pytest.fail.Exception, match="in the handler"):
        harness.drain(raise_errors=raise_errors)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_handler_that_exits_ends_the_drain(app: Treadle, harness: Harness, error: type[BaseException]) -> None:
    @app.job
    def on_this_thread() -> None:
        raise error

    @app.job
    async def on_the_loop() -> None:
        raise error

    for function in (on_this_thread, on_the_loop):
        function.enqueue()
        with pytest.raises(error):
            harness.drain()


def test_arguments_that_no_longer_fit_are_an_error(app: Treadle, harness: Harness) -> None:
    @app.job
    def resize(width: int) -> None: ...

    app.queue.enqueue("resize", {"height": 7})
    with pytest.raises(JobFailed, match="width"):
        harness.drain()


def test_follow_moves_the_clock_to_the_end_of_retries_and_delays(app: Treadle, harness: Harness) -> None:
    @app.job(retry=Retries(4))
    def fetch(job: Job) -> int:
        if job.attempt < 5:
            raise ConnectionError
        return job.attempt

    before = harness.now()
    later = fetch.using(delay="30d").enqueue()
    assert harness.drain(follow=True, raise_errors=False) == Drained(completed=1, retried=4)
    assert later.result() == 5
    assert 30 <= (harness.now() - before).days <= 31


def test_a_drain_never_runs_for_ever(app: Treadle, harness: Harness) -> None:
    @app.job
    def poll() -> None:
        raise Snooze("1h")

    poll.enqueue()
    with pytest.raises(DrainLimit, match=r"has run 20 attempts, most of them of poll \(20\)"):
        harness.drain(follow=True, limit=20)


def test_until_stops_at_each_time_of_a_schedule(app: Treadle, harness: Harness) -> None:
    times = []

    @app.job(schedule=Cron("0 9 * * *", timezone="Europe/Oslo"))
    def report(job: Job) -> None:
        times.append(job.scheduled_for)

    harness.declare()
    before = harness.now()
    assert harness.drain(until="3d") == Drained(completed=3)
    assert len({each.date() for each in times if each}) == 3
    assert 3 * 86400 <= (harness.now() - before).total_seconds() < 3 * 86400 + 60


def test_travelling_past_several_times_of_a_schedule_runs_the_last(app: Treadle, harness: Harness) -> None:
    @app.job(schedule=Every("1h"))
    def report() -> None: ...

    harness.declare()
    assert harness.drain() == Drained()
    harness.travel("3d")
    assert harness.drain() == Drained(completed=1)


def test_workflows_are_followed(app: Treadle, harness: Harness) -> None:
    @app.job
    def double(n: int) -> int:
        return 2 * n

    @app.job
    async def total(ns: list[int]) -> int:
        return sum(ns)

    chained = chain(double.call(1), double.call(), double.call()).enqueue()
    grouped = group(double.call(1), double.call(2)).then(total.call()).enqueue()
    assert harness.drain() == Drained(completed=6)
    assert (chained.result(), grouped.result()) == (8, 6)


def test_jobs_with_a_key_run_in_their_order(app: Treadle, harness: Harness) -> None:
    ran: list[int] = []

    @app.job
    def book(n: int) -> None:
        ran.append(n)

    for n in range(4):
        book.using(key="account 7").enqueue(n=n)
    assert harness.drain() == Drained(completed=4)
    assert ran == [0, 1, 2, 3]


def test_rates_follow_the_clock_of_the_test(app: Treadle, harness: Harness) -> None:
    @app.job(limits=Rate(2, "1h"))
    def call() -> None: ...

    harness.declare()
    call.enqueue_many([{}] * 4)
    assert harness.drain() == Drained(completed=2)
    harness.travel("1h")
    assert harness.drain() == Drained(completed=2)


def test_jobs_expire_by_the_clock_of_the_test(app: Treadle, harness: Harness) -> None:
    @app.job
    def offer() -> None: ...

    handle = offer.using(expires="1h").enqueue()
    harness.travel("2h")
    assert harness.drain() == Drained()
    assert handle.status() is Status.CANCELLED


def test_a_handler_can_complete_its_job_in_a_transaction(app: Treadle, harness: Harness) -> None:
    @app.job
    def pay(job: Job) -> str | None:
        job.event("paying")
        with job.transaction() as connection:
            connection.execute("select 1")
            job.complete("paid")
        return None

    handle = pay.enqueue()
    assert harness.drain() == Drained(completed=1)
    assert handle.result() == "paid"


def test_an_async_handler_can_use_a_transaction_and_enqueue(app: Treadle, harness: Harness) -> None:
    @app.job
    async def pay(job: Job) -> None:
        async with job.atransaction() as connection:
            await connection.execute("select 1")
        await thank.aenqueue()

    @app.job
    def thank() -> None: ...

    pay.enqueue()
    assert harness.drain() == Drained(completed=2)


def test_log_lines_are_kept(app: Treadle, harness: Harness) -> None:
    @app.job
    def count() -> None:
        logging.getLogger("shop").warning("3 apples")

    handle = count.enqueue()
    harness.drain()
    assert [line.message for line in handle.logs()] == ["3 apples"]


def test_middlewares_and_listeners_run(app: Treadle, harness: Harness) -> None:
    ran: list[str] = []

    @app.middleware
    async def outer(job: Job, call_next: Callable[[], Any]) -> Any:
        ran.append("outer")
        return await call_next()

    @app.job
    def handler() -> None:
        ran.append("handler")

    app.on(events.JobCompleted)(lambda event: ran.append(event.job_type))
    handler.enqueue()
    harness.drain()
    assert ran == ["outer", "handler", "handler"]


def test_a_timeout_interrupts_an_async_handler(app: Treadle, harness: Harness) -> None:
    @app.job(timeout="20ms")
    async def hang() -> None:
        await asyncio.sleep(60)

    hang.enqueue()
    with pytest.raises(JobFailed, match=r"timed out after 0\.02 seconds"):
        harness.drain()
    harness.travel("1m")
    assert harness.drain(raise_errors=False) == Drained(retried=1)


def test_a_handler_that_ends_the_program_or_is_interrupted_fails_its_attempt(app: Treadle, harness: Harness) -> None:
    @app.job
    def leave() -> None:
        sys.exit(3)

    @app.job(timeout="20ms")
    def hang(job: Job) -> None:
        while True:
            job.progress(1)

    for function in (leave, hang):
        function.enqueue()
        assert harness.drain(raise_errors=False) == Drained(retried=1)
    leave.enqueue()
    with pytest.raises(SystemExit):
        harness.drain()


def test_on_an_event_loop_adrain_runs_async_and_sync_handlers(app: Treadle, harness: Harness) -> None:
    @app.job
    def sync() -> None: ...

    @app.job
    async def on_loop() -> None:
        loops.append(asyncio.get_running_loop())

    loops: list[Any] = []

    async def main() -> None:
        await on_loop.aenqueue()
        await sync.using(delay="1h").aenqueue()
        with pytest.raises(InvalidArgument, match=r"use await treadle.adrain\(\)"):
            harness.drain()
        assert await harness.adrain() == Drained(completed=1)
        assert loops == [asyncio.get_running_loop()]
        await harness.atravel("1h")
        assert await harness.adrain() == Drained(completed=1)

    asyncio.run(main())
