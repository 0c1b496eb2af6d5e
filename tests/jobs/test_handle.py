"""Handles: the status and the result of a job, and waiting for it."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import Connection

from tests.support.apps import Colour, Pair, Point, Strict, claim_and_complete, count_pending, run
from tests.support.workers import until
from treadle import (
    Handle,
    InvalidArgument,
    JobCancelled,
    JobFailed,
    JobNotFound,
    JobQueue,
    MaxPending,
    Retries,
    Status,
    Treadle,
    TreadleError,
    migrate,
)
from treadle.jobs.function import Enqueuer
from treadle.watching import watch

NOWHERE = "postgresql://ada:secret@127.0.0.1:1/app"


def test_a_handle_follows_a_job_to_its_result(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def count(path: str) -> int:
        return 0

    handle = count.enqueue("a")
    assert (handle.status(), handle.progress()[:2], handle.errors()) == (Status.PENDING, (0, None), [])
    (job,) = queue.claim(["count"])
    queue.fail(job, ValueError("unreadable"), delay=0)
    (job,) = queue.claim(["count"])
    queue.start(job)
    queue.progress(job, 40, "counting")
    assert (handle.status(), handle.progress()[:2]) == (Status.RUNNING, (40, "counting"))
    assert (handle.progress().percent, handle.progress().stage) == (40, "counting")
    queue.complete(job, 12)
    assert (handle.status(), handle.result(), handle.progress().percent) == (Status.COMPLETED, 12, 100)
    (error,) = handle.errors()
    assert (error.attempt, error.error, error.worker_id) == (1, "ValueError: unreadable", "worker-1")
    assert app.handle(handle.id).result() == app.handle(str(handle.id)).result() == 12


def test_a_handle_follows_a_job_asynchronously(app: Treadle) -> None:
    @app.job
    async def count(path: str) -> int:
        return 0

    async def main() -> None:
        handle = await count.aenqueue("a")
        assert (await handle.astatus(), (await handle.aprogress())[:2]) == (Status.PENDING, (0, None))
        (job,) = await app.queue.aclaim(["count"])
        await app.queue.afail(job, "unreadable", delay=0)
        (job,) = await app.queue.aclaim(["count"])
        await app.queue.astart(job)
        await app.queue.aprogress(job, 40, "counting")
        assert (await handle.astatus(), (await handle.aprogress())[:2]) == (Status.RUNNING, (40, "counting"))
        await app.queue.acomplete(job, 12)
        assert ((await handle.ajob()).status, await handle.aresult()) == (Status.COMPLETED, 12)
        assert [error.error for error in await handle.aerrors()] == ["unreadable"]
        one, two = await count.using(key="k").aenqueue_many([{"path": "a"}, {"path": "b"}], keys=["x", "y"])
        await one.acancel("not wanted")
        with pytest.raises(JobCancelled, match="not wanted"):
            await one.aresult()
        with pytest.raises(TimeoutError):
            await two.aresult(timeout=0)
        with pytest.raises(JobNotFound):
            await app.handle(uuid4()).aresult()

    run(app, main())


@pytest.mark.parametrize("kind", [Handle, Enqueuer])
def test_every_method_that_queries_the_database_has_an_async_twin(kind: type) -> None:
    methods = {name: value for name, value in vars(kind).items() if inspect.isfunction(value) and name[0] != "_"}
    for name in ("using", "call", "prepared"):  # these make values
        methods.pop(name, None)
    methods.pop("events", None)  # events() supports both for and async for
    for name in [name for name in methods if f"a{name}" in methods]:
        assert inspect.signature(methods.pop(name)) == inspect.signature(methods[f"a{name}"])
        assert inspect.iscoroutinefunction(methods.pop(f"a{name}"))
    assert methods == {}


def test_a_result_has_the_return_type_of_the_function(app: Treadle, queue: JobQueue) -> None:
    results: list[tuple[Any, Any, Any]] = [
        (date, "2024-02-29", date(2024, 2, 29)),
        (list[Point], [{"x": 1, "y": 2}], [Point(1, 2.0)]),
        (dict[UUID, Decimal], {str(UUID(int=1)): "0.10"}, {UUID(int=1): Decimal("0.10")}),
        (Colour | None, "blue", Colour.BLUE),
        (Colour | None, None, None),
        (Pair, [1, "2024-02-29"], Pair(1, date(2024, 2, 29))),
        (Literal["a", "b"], "a", "a"),
        (timedelta, "PT1M", timedelta(minutes=1)),
        (Any, {"when": "2024-02-29"}, {"when": "2024-02-29"}),
        (None, None, None),
        (inspect.Signature.empty, [1, "x"], [1, "x"]),
    ]
    for nth, (annotation, stored, result) in enumerate(results):

        def made() -> None: ...

        made.__annotations__ = {} if annotation is inspect.Signature.empty else {"return": annotation}
        handle: Handle[Any] = app.job(name=f"made-{nth}")(made).enqueue()
        claim_and_complete(queue, f"made-{nth}", stored)
        assert handle.result() == result
        assert type(handle.result()) is type(result)
        assert app.handle(handle.id).result() == result


def test_a_handle_by_id_knows_what_the_function_returns(app: Treadle, queue: JobQueue) -> None:
    @app.job(aliases=["former"])
    def move(count: int) -> Point:
        return Point(count, 2)

    @app.job
    def other() -> None: ...

    handle = move.enqueue(1)
    (job,) = queue.claim(["move"])
    queue.complete(job, {"x": 1, "y": 2})
    found = [each.result() for each in (handle, move.handle(handle.id), move.handle(str(handle.id)), app.handle(job))]
    assert found == [Point(1, 2)] * 4
    assert asyncio.run(app.handle(handle.id).aresult()) == Point(1, 2)

    with pytest.raises(InvalidArgument, match=rf"job {handle.id} is a job of type move, not other: use app.handle"):
        other.handle(handle.id).result()
    unknown = queue.enqueue("unknown")
    queue.complete(unknown, {"x": 1})
    assert app.handle(unknown).result() == {"x": 1}


def test_what_waits_is_refused_on_an_event_loop(app: Treadle) -> None:
    """What it waits for may need that loop."""

    @app.job(limits=MaxPending(1, wait="1m"))
    def work() -> None: ...

    handle = work.enqueue()

    async def waits() -> None:
        for call, twin in (
            (lambda: handle.result(0.1), r"await handle\.aresult\(…\)"),
            (handle.watch, r"await handle\.awatch\(\)"),
            (lambda: list(handle.events()), "async for, or follow=False"),
            (lambda: list(app.events()), "async for, or follow=False"),
            (work.enqueue, r"await work\.aenqueue\(…\)"),
            (app.run_worker, r"async with app\.worker\(…\)"),
        ):
            with pytest.raises(InvalidArgument, match=f"would block the event loop while it waits: use {twin}"):
                call()
        assert [each.name for each in handle.events(follow=False)] == ["enqueued"]

    asyncio.run(waits())


def test_a_job_that_has_finished_is_not_cancelled(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def work() -> None: ...

    handle = work.enqueue()
    assert [handle.cancel("no longer needed"), handle.cancel()] == [True, False]
    assert asyncio.run(handle.acancel()) is False
    assert handle.job().last_error == "no longer needed"


def test_a_result_may_be_a_strict_model(app: Treadle, queue: JobQueue) -> None:
    given = Strict(moment=datetime(2024, 2, 29, tzinfo=UTC), colour=Colour.BLUE)

    @app.job
    def echo(value: Strict) -> Strict:
        return value

    handle = echo.enqueue(given)
    claim_and_complete(queue, "echo", handle.job().data["value"])
    assert handle.result() == given


def test_a_result_that_does_not_fit_the_return_type_is_an_error(app: Treadle, queue: JobQueue) -> None:
    """An older version of the program or SQL wrote the result."""

    @app.job
    def count() -> int:
        return 0

    handle = count.enqueue()
    claim_and_complete(queue, "count", {"rows": 7})
    with pytest.raises(TreadleError):
        handle.result()


def test_a_failed_job_has_no_result(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def count() -> int:
        return 0

    handle = count.enqueue()
    (job,) = queue.claim(["count"])
    queue.fail(job, ValueError("unreadable"), final=True)
    with pytest.raises(JobFailed, match=rf"job {handle.id} failed: ValueError: unreadable") as failed:
        handle.result()
    assert (failed.value.job_id, failed.value.error) == (handle.id, "ValueError: unreadable")


def test_a_cancelled_job_has_no_result(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def count() -> int:
        return 0

    for reason in ("not wanted", None):
        handle = count.enqueue()
        handle.cancel(reason)
        assert handle.status() == Status.CANCELLED
        assert queue.claim(["count"]) == []
        with pytest.raises(JobCancelled, match=rf"job {handle.id} was cancelled") as cancelled:
            handle.result()
        assert (cancelled.value.job_id, cancelled.value.reason) == (handle.id, reason)


def test_an_unknown_job_has_no_result(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    missing = uuid4()
    handle = app.handle(missing)
    for ask in (handle.result, handle.status, handle.progress, handle.cancel, handle.job):
        with pytest.raises(JobNotFound, match=f"there is no job {missing}"):
            ask()
    waiting = app.handle(queue.enqueue("count"))
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(waiting.result, 30)
        connection.execute("delete from jobs")
        with pytest.raises(JobNotFound):
            result.result()


def test_waiting_for_a_result_stops_at_the_timeout(app: Treadle) -> None:
    @app.job
    def count() -> int:
        return 0

    handle = count.enqueue()
    for timeout, shown in ((0, "0"), ("50ms", "0.05"), (timedelta(milliseconds=50), "0.05")):
        with pytest.raises(TimeoutError, match=rf"job {handle.id} has not finished within {shown} seconds"):
            handle.result(timeout)
        with pytest.raises(TimeoutError, match=rf"job {handle.id} has not finished within {shown} seconds"):
            run(app, handle.aresult(timeout))
    with pytest.raises(InvalidArgument, match="timeout must not be negative"):
        handle.result(-1)


@pytest.mark.parametrize("outcome", ["complete", "complete_many", "fail", "cancel"])
def test_a_waiting_caller_is_notified_of_the_result(
    app: Treadle, queue: JobQueue, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    monkeypatch.setattr(watch, "POLL_SECONDS", 60.0)

    @app.job
    def count() -> int:
        return 0

    start_listener(app, queue)
    handle = count.enqueue()
    (job,) = queue.claim(["count"])
    end: dict[str, Callable[[], object]] = {
        "complete": lambda: queue.complete(job, 7),
        "complete_many": lambda: queue.complete_many([job], [7]),
        "fail": lambda: queue.fail(job, "unreadable", final=True),
        "cancel": lambda: queue.cancel(job),
    }
    timer = threading.Timer(0.3, end[outcome])
    timer.start()
    try:
        assert handle.result(timeout=30) == 7
    except (JobFailed, JobCancelled):
        assert outcome in ("fail", "cancel")
    timer.join()


def test_a_waiting_async_caller_is_notified_by_a_worker(
    app: Treadle, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "POLL_SECONDS", 60.0)

    @app.job(retry=Retries(0))
    async def count(fails: bool) -> int:
        await asyncio.sleep(0.3)
        if fails:
            raise ValueError("unreadable")
        return 7

    start_listener(app, queue)

    async def main() -> None:
        async with app.worker():
            good, bad = await count.aenqueue(fails=False), await count.aenqueue(fails=True)
            assert await good.aresult(timeout=30) == 7
            with pytest.raises(JobFailed, match="ValueError: unreadable"):
                await bad.aresult(timeout=30)

    run(app, main())


def start_listener(app: Treadle, queue: JobQueue) -> None:
    """Wait until the listener has started. It polls three times in its first 100 ms, and may find a result that way."""
    finished = app.handle(queue.enqueue("warm_up"))
    claim_and_complete(queue, "warm_up")
    finished.result()


def test_a_result_waits_until_a_retried_job_has_finished(app: Treadle, queue: JobQueue) -> None:
    @app.job(retry=Retries(1))
    def count() -> int:
        return 0

    handle = count.enqueue()
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(handle.result, 30)
        (job,) = queue.claim(["count"])
        queue.fail(job, "unreadable", delay=0)
        with pytest.raises(TimeoutError):
            handle.result(timeout=0)
        (job,) = queue.claim(["count"])
        queue.release(job)
        with pytest.raises(TimeoutError):
            handle.result(timeout=0)
        (job,) = queue.claim(["count"])
        queue.complete(job, 7)
        assert result.result() == 7


def test_all_waiting_callers_share_one_thread(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def count(n: int) -> int:
        return n

    def listeners() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "treadle-watch"}

    before = listeners()
    handles = count.enqueue_many([{"n": n} for n in range(10)])
    claimed = queue.claim(["count"], 10)
    with ThreadPoolExecutor(20) as pool:
        results = [pool.submit(handle.result, 30) for handle in handles * 2]
        queue.complete_many(claimed, [job.data["n"] for job in claimed])
        assert [result.result() for result in results] == [*range(10), *range(10)]
    assert len(listeners() - before) == 1


def test_a_caller_that_stops_waiting_does_not_affect_others(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def count() -> int:
        return 0

    async def main() -> int:
        handle = await count.aenqueue()
        abandoned = asyncio.create_task(handle.aresult())
        patient = asyncio.create_task(handle.aresult(timeout=30))
        await asyncio.sleep(0)  # both tasks are waiting now
        abandoned.cancel()
        with pytest.raises(asyncio.CancelledError):
            await abandoned
        with pytest.raises(TimeoutError):
            await handle.aresult(timeout=0)
        await asyncio.to_thread(claim_and_complete, queue, "count", 7)
        return await patient

    assert run(app, main()) == 7


def test_results_are_polled_on_a_callers_connection(queue: JobQueue, url: str) -> None:
    with psycopg.connect(url) as connection:
        app = Treadle(connection)
        handle = app.job(name="count")(lambda: 0).enqueue()
        assert count_pending(queue) == 0
        connection.commit()
        with ThreadPoolExecutor(1) as pool:
            result = pool.submit(handle.result, 30)
            claim_and_complete(queue, "count", 7)
            assert result.result() == 7
        with pytest.raises(InvalidArgument, match="needs a database URL"):
            asyncio.run(app.worker().start())


def test_results_are_polled_on_a_callers_async_connection(queue: JobQueue, url: str) -> None:
    async def main() -> int:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            handle: Handle[int] = await Treadle(connection).job(name="count")(lambda: 0).aenqueue()
            result = asyncio.create_task(handle.aresult(timeout=30))
            # There is one connection: the second reply comes after the query of the waiting result.
            assert [await handle.astatus(), await handle.astatus()] == [Status.PENDING] * 2
            await asyncio.to_thread(claim_and_complete, queue, "count", 7)
            return await result

    assert asyncio.run(main()) == 7


def test_an_application_is_closed_on_another_event_loop(app: Treadle) -> None:
    """Its pool belongs to one that has ended."""

    @app.job
    def work() -> None: ...

    async def enqueue() -> None:
        await work.aenqueue()

    asyncio.run(enqueue())
    asyncio.run(app.aclose())


def test_closing_an_application_closes_its_connections(empty_url: str, server_url: str) -> None:
    migrate(empty_url)
    app = Treadle(empty_url)
    count = app.job(name="count")(lambda: 0)
    handle = count.enqueue()
    claim_and_complete(app.queue, "count")
    handle.result()
    name = psycopg.conninfo.conninfo_to_dict(empty_url)["dbname"]
    open_ones = "select from pg_stat_activity where datname = %s"
    with psycopg.connect(server_url, autocommit=True) as connection:
        app.close()
        until(lambda: not connection.execute(open_ones, [name]).fetchall(), seconds=20)
