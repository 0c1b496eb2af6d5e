"""A worker inside a program: retries, verdicts, timeouts, cancelling, later jobs, middleware, events, upkeep."""

import asyncio
import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from tests.workers import count
from treadle import (
    Backoff,
    Cancel,
    InvalidArgument,
    InvalidJob,
    Job,
    JobCancelled,
    JobFailed,
    JobInterrupted,
    JobQueue,
    Retry,
    Snooze,
    Treadle,
    current_job,
    events,
)
from treadle.worker import Worker, WorkerOptions
from treadle.worker.log import JsonFormatter, TextFormatter

NOW = Backoff(first=0, limit=0)


def run(app: Treadle, body: Callable[[Worker], Coroutine[Any, Any, Any]], **options: Any) -> Any:
    """The body beside a worker."""

    async def both() -> Any:
        try:
            async with app.worker(**options) as worker:
                return await body(worker)
        finally:
            await app.aclose()

    return asyncio.run(both())


async def until(condition: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        await asyncio.sleep(0.01)


async def until_status(handle: Any, status: str) -> None:
    while await handle.astatus() != status:
        await asyncio.sleep(0.01)


# Attempts


def test_a_failed_job_is_tried_again_and_every_error_is_kept(app: Treadle) -> None:
    @app.job(max_attempts=3, backoff=NOW)
    async def fragile(job: Job) -> str:
        if job.attempt < 3:
            raise ValueError(f"not at attempt {job.attempt}")
        return "at last"

    async def body(worker: Worker) -> None:
        handle = await fragile.aenqueue()
        assert await handle.aresult(10) == "at last"
        row = await handle.ajob()
        assert (row.attempts, row.crashes, row.last_error) == (3, 0, "ValueError: not at attempt 2")
        one, two = await handle.aerrors()
        assert (one.attempt, one.error) == (1, "ValueError: not at attempt 1")
        assert (two.attempt, two.worker_id) == (2, worker.worker_id)
        assert one.failed_at < two.failed_at
        assert two.traceback is not None
        assert 'raise ValueError(f"not at attempt {job.attempt}")' in two.traceback
        assert "executor.py" not in two.traceback

    run(app, body)


def test_the_default_backoff_waits(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    def broken() -> None:
        raise OSError("disk full")

    async def body(worker: Worker) -> None:
        handle = await broken.aenqueue()
        while not await handle.aerrors():
            await asyncio.sleep(0.01)
        (error,) = await handle.aerrors()
        wait = (await handle.ajob()).run_at - error.failed_at
        assert timedelta(seconds=0.45) < wait < timedelta(seconds=1.05)

    run(app, body)


def test_which_exceptions_are_tried_again(app: Treadle) -> None:
    @app.job(retry_on=OSError, backoff=NOW)
    def only_some(kind: str) -> None:
        raise {"OSError": OSError, "ValueError": ValueError}[kind]()

    @app.job(give_up_on=(ValueError,), backoff=NOW)
    async def all_but_some(kind: str) -> None:
        raise {"OSError": OSError, "ValueError": ValueError}[kind]()

    async def body(worker: Worker) -> None:
        for job in (only_some, all_but_some):
            for kind, attempts in (("OSError", 3), ("ValueError", 1)):
                handle = await job.aenqueue(kind=kind)
                with pytest.raises(JobFailed, match=kind):
                    await handle.aresult(10)
                assert (await handle.ajob()).attempts == attempts
                assert len(await handle.aerrors()) == attempts

    run(app, body)


def test_a_handler_says_how_its_job_goes_on(app: Treadle) -> None:
    seen: list[tuple[str, int]] = []

    @app.job(max_attempts=2)
    async def again(job: Job) -> None:
        seen.append(("again", job.attempt))
        raise Retry("the shop is closed", after=0)

    @app.job(max_attempts=1)
    def snoozes(job: Job) -> int:
        seen.append(("snoozes", job.attempt))
        if job.fence < 3:
            raise Snooze(0)
        return job.fence

    @app.job
    async def unwanted() -> None:
        raise Cancel("the order was withdrawn")

    async def body(worker: Worker) -> None:
        retried, snoozed, cancelled = await again.aenqueue(), await snoozes.aenqueue(), await unwanted.aenqueue()
        with pytest.raises(JobFailed, match="failed: the shop is closed"):
            await retried.aresult(10)
        assert await snoozed.aresult(10) == 3
        with pytest.raises(JobCancelled, match="the order was withdrawn"):
            await cancelled.aresult(10)
        assert sorted(seen) == [("again", 1), ("again", 2), ("snoozes", 1), ("snoozes", 1), ("snoozes", 1)]
        assert (await snoozed.ajob()).attempts == 1
        assert await snoozed.aerrors() == []

    run(app, body)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        StopIteration(),
        asyncio.CancelledError(),
        Unspeakable(),
        ExceptionGroup("several", [ValueError("a\x00b"), OSError("\ud800")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_is_raised_is_a_failed_attempt_and_the_worker_goes_on(app: Treadle, error: BaseException) -> None:
    @app.job(max_attempts=1)
    async def on_the_loop() -> None:
        raise error

    @app.job(max_attempts=1)
    def on_a_thread() -> None:
        raise error

    @app.job
    async def fine() -> str:
        return "fine"

    async def body(worker: Worker) -> None:
        for handle in (await on_the_loop.aenqueue(), await on_a_thread.aenqueue()):
            with pytest.raises(JobFailed):
                await handle.aresult(10)
            (kept,) = await handle.aerrors()
            assert kept.traceback
        assert await (await fine.aenqueue()).aresult(10) == "fine"

    run(app, body)


@pytest.mark.parametrize(
    "result", [float("nan"), "a\x00b", object(), "x" * 300_000], ids=["nan", "nul", "object", "large"]
)
def test_a_result_that_cannot_be_stored_fails_the_job_at_once(app: Treadle, result: object) -> None:
    @app.job(backoff=NOW)
    async def returns() -> Any:
        return result

    async def body(worker: Worker) -> None:
        handle = await returns.aenqueue()
        with pytest.raises(JobFailed, match="result"):
            await handle.aresult(10)
        assert (await handle.ajob()).attempts == 1

    run(app, body)


def test_a_payload_that_does_not_fit_fails_alone(app: Treadle, queue: JobQueue) -> None:
    @app.job(max_attempts=1)
    async def takes(n: int) -> int:
        return n

    async def body(worker: Worker) -> None:
        bad = [queue.enqueue("takes", data, max_attempts=1) for data in ({"n": "x"}, {}, [1], {"n": 1, "m": 2}, None)]
        good = await takes.aenqueue(n=4)
        assert await good.aresult(10) == 4
        for job_id in bad:
            with pytest.raises(JobFailed, match=r"InvalidPayload: .*takes"):
                await app.handle(job_id).aresult(10)

    run(app, body)


# Places


def test_handlers_run_where_they_belong(app: Treadle) -> None:
    @app.job
    async def on_the_loop() -> str:
        return threading.current_thread().name

    @app.job
    def on_a_thread(job: Job) -> str:
        assert current_job() is job
        return threading.current_thread().name

    async def body(worker: Worker) -> None:
        assert await (await on_the_loop.aenqueue()).aresult(10) == "MainThread"
        assert (await (await on_a_thread.aenqueue()).aresult(10)).startswith("treadle-job")

    run(app, body)


def test_what_one_job_leaves_in_the_context_is_not_seen_by_the_next(app: Treadle) -> None:
    from contextvars import ContextVar

    colour: ContextVar[str] = ContextVar("colour", default="none")

    @app.job
    async def paints() -> str:
        before = colour.get()
        colour.set("red")
        return before

    async def body(worker: Worker) -> None:
        for _ in range(3):
            assert await (await paints.aenqueue()).aresult(10) == "none"

    run(app, body, concurrency=1)


def test_a_function_inside_another_cannot_have_a_process_of_its_own(app: Treadle) -> None:
    with pytest.raises(InvalidJob, match="at the top of a module"):

        @app.job(process=True)
        def inner() -> None: ...


# Time


def test_a_timeout_interrupts_each_place(app: Treadle) -> None:
    seen = []

    @app.job(timeout=0.1, max_attempts=1)
    async def on_the_loop() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("loop")
            raise

    @app.job(timeout=0.1, max_attempts=1)
    def on_a_thread(job: Job) -> None:
        try:
            while True:
                job.progress(5)
                time.sleep(0.01)
        except JobInterrupted as interrupted:
            assert job.cancelled
            seen.append(interrupted.reason)
            raise

    async def body(worker: Worker) -> None:
        for handle in (await on_the_loop.aenqueue(), await on_a_thread.aenqueue()):
            with pytest.raises(JobFailed, match=r"timed out after 0\.1 seconds"):
                await handle.aresult(10)

    run(app, body)
    assert seen == ["loop", "timeout"]


def test_a_thread_past_its_deadline_is_given_up(app: Treadle) -> None:
    release = threading.Event()

    @app.job(timeout=0.1, deadline=0.2, max_attempts=1)
    def deaf() -> None:
        release.wait(30)

    @app.job
    async def fine() -> str:
        return "fine"

    async def body(worker: Worker) -> None:
        handle = await deaf.aenqueue()
        with pytest.raises(JobFailed, match=r"still ran at its deadline, after 0\.2 seconds"):
            await handle.aresult(10)
        assert await (await fine.aenqueue()).aresult(10) == "fine"
        release.set()

    run(app, body)


def test_a_job_for_later_starts_by_a_timer(app: Treadle) -> None:
    """With a poll of a minute, only a timer can do it."""

    @app.job
    async def late() -> float:
        return time.time()

    async def body(worker: Worker) -> None:
        due = datetime.now(UTC) + timedelta(seconds=1.2)
        handles = [await late.using(delay=0.6).aenqueue(), await late.using(run_at=due).aenqueue()]
        for handle in handles:
            started = await handle.aresult(10)
            row = await handle.ajob()
            # Bounds for a busy machine; the benchmark has the figures.
            assert 0 <= started - row.run_at.timestamp() < 0.5

    run(app, body, poll="60s")


def test_a_job_is_picked_up_by_a_notification(app: Treadle) -> None:
    @app.job
    async def hello() -> str:
        return "hello"

    async def body(worker: Worker) -> None:
        assert await (await hello.aenqueue()).aresult(10) == "hello"
        for _ in range(20):
            await asyncio.sleep(0.03)  # the worker rests again
            assert await (await hello.aenqueue()).aresult(10) == "hello"

    run(app, body, poll="60s")


def test_polling_alone_is_enough(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    async def hello() -> str:
        return "hello"

    async def body(worker: Worker) -> None:
        assert await (await hello.aenqueue()).aresult(10) == "hello"
        names = connection.execute(
            "select query from pg_stat_activity where datname = current_database() and query ilike 'listen%%work%%'"
        ).fetchall()
        assert names == []

    run(app, body, poll="50ms", listen=False)


def test_a_deaf_listener_is_noticed(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a pooler: LISTEN succeeds and nothing ever arrives."""
    from treadle.db import work
    from treadle.db.query import Query

    real = work.channel
    deaf = True

    def elsewhere(schema: str, kind: str) -> Query[str]:
        query = real(schema, kind)
        return Query(query.text, query.params, lambda rows: "nobody_talks_here") if deaf else query

    monkeypatch.setattr(work, "channel", elsewhere)

    @app.job
    async def hello() -> str:
        return "hello"

    async def body(worker: Worker) -> None:
        nonlocal deaf
        app.ends._database  # noqa: B018 - the other listener is polled, too
        handle = await hello.aenqueue()
        assert await handle.aresult(10) == "hello", "it has to poll faster while it cannot hear"
        assert not worker.hears
        deaf = False
        await until(lambda: worker.hears)

    run(app, body, poll="60s")


# Cancelling


@pytest.mark.parametrize("hears", [True, False])
def test_a_running_job_is_cancelled_from_anywhere(app: Treadle, queue: JobQueue, hears: bool) -> None:
    stopped: list[str] = []

    @app.job
    async def on_the_loop() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            stopped.append("loop")

    @app.job
    def on_a_thread(job: Job) -> None:
        while not job.cancelled:
            time.sleep(0.01)
        with contextlib.suppress(Exception):
            job.progress(50)  # not an Exception
            stopped.append("not reached")
        stopped.append("not reached either")

    async def body(worker: Worker) -> None:
        handles = [await on_the_loop.aenqueue(), await on_a_thread.aenqueue()]
        for handle in handles:
            await until_status(handle, "running")
        began = time.monotonic()
        for handle in handles:
            queue.cancel(handle.id, "changed my mind")
            with pytest.raises(JobCancelled, match="changed my mind"):
                await handle.aresult(5)
        await until(lambda: len(worker.bench) == 0)
        assert time.monotonic() - began < 4
        for handle in handles:
            assert await handle.astatus() == "cancelled"

    run(app, body, listen=hears)
    assert stopped == ["loop"]


def test_a_job_that_is_taken_away_is_stopped_and_writes_nothing(app: Treadle, queue: JobQueue) -> None:
    lost: list[events.LeaseWasLost] = []
    app.on(events.LeaseWasLost)(lost.append)

    @app.job(queue="mine")
    async def long() -> None:
        await asyncio.sleep(30)

    async def body(worker: Worker) -> None:
        handle = await long.aenqueue()
        await until_status(handle, "running")
        queue.release(handle.id)
        (row,) = queue.claim(["long"], queues=["mine"])
        await until(lambda: lost)
        now = await handle.ajob()
        assert (now.lease, now.worker_id, now.status) == (row.lease, "worker-1", "claimed")

    run(app, body, queues=["default", "mine"], poll="30s", concurrency=1)
    assert lost[0].attempt == 1


# Around the work


def test_middleware_goes_around_every_handler(app: Treadle) -> None:
    seen: list[str] = []

    @app.middleware
    async def outer(job: Job, call_next: Callable[[], Awaitable[Any]]) -> Any:
        seen.append(f"before {job.type}")
        try:
            return await call_next()
        finally:
            seen.append(f"after {job.type}")

    @app.middleware
    async def inner(job: Job, call_next: Callable[[], Awaitable[Any]]) -> Any:
        seen.append("inside")
        return f"<{await call_next()}>"

    @app.job
    async def one() -> str:
        return "1"

    @app.job
    def two() -> str:
        return "2"

    async def body(worker: Worker) -> None:
        assert await (await one.aenqueue()).aresult(10) == "<1>"
        assert await (await two.aenqueue()).aresult(10) == "<2>"

    run(app, body)
    assert seen == ["before one", "inside", "after one", "before two", "inside", "after two"]


def test_events_tell_everything(app: Treadle, caplog: pytest.LogCaptureFixture) -> None:
    told: list[events.Event] = []
    app.on(events.Event)(told.append)

    @app.on(events.JobClaimed)
    def broken_listener(event: events.JobClaimed) -> None:
        raise RuntimeError("a listener cannot stop a job")

    @app.job(max_attempts=2, backoff=Backoff(first=0.1))
    async def twice(job: Job, secret: str) -> None:
        if job.attempt == 1:
            raise ValueError("no")

    @app.job(max_attempts=1)
    async def never() -> None:
        raise OSError("never")

    async def body(worker: Worker) -> None:
        await (await twice.aenqueue(secret="hunter2")).aresult(10)  # noqa: S106
        with pytest.raises(JobFailed):
            await (await never.aenqueue()).aresult(10)
        await until(lambda: any(isinstance(each, events.JobFailed) for each in told))

    with caplog.at_level(logging.DEBUG, "treadle"):
        run(app, body)
    kinds = [type(each).__name__ for each in told]
    assert kinds == [
        "WorkerStarted",
        "JobClaimed",
        "JobStarted",
        "JobRetried",
        "JobClaimed",
        "JobStarted",
        "JobCompleted",
        "JobClaimed",
        "JobStarted",
        "JobFailed",
        "WorkerStopped",
    ]
    completed = next(each for each in told if isinstance(each, events.JobCompleted))
    assert (completed.job_type, completed.attempt) == ("twice", 2)
    assert completed.data == '{"secret": "hunter2"}'
    lines = [record for record in caplog.records if record.name == "treadle" and hasattr(record, "event")]
    assert [vars(record)["what"] for record in lines if record.levelno >= logging.WARNING] == [
        "job failed, will be tried again",
        "job failed",
    ]
    for record in lines:
        for formatter in (TextFormatter(), JsonFormatter()):
            assert "hunter2" not in formatter.format(record)
    assert json.loads(JsonFormatter().format(lines[-2]))["error"] == "OSError: never"


# Upkeep


def test_upkeep_happens_by_itself(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    recovered: list[events.JobRecovered] = []
    app.on(events.JobRecovered)(recovered.append)

    @app.job
    async def hello() -> None: ...

    other = queue.enqueue("elsewhere")
    by_hand = queue.enqueue("by hand")
    connection.execute("select register_worker('gone', '1 second', '{elsewhere}')")
    connection.execute("update workers set seen_at = now() - interval '1 minute'")
    connection.execute("select claim_jobs('gone', '{elsewhere}')")
    connection.execute("select claim_jobs('somebody by hand', '{by hand}')")
    connection.execute("update jobs set claimed_at = now() - interval '1 hour'")

    async def body(worker: Worker) -> None:
        await until(lambda: recovered)
        await until(lambda: count(connection, "status = 'pending'") == 1)

    run(app, body, lease="1s")
    assert [(each.job_id, each.worker_id, each.status) for each in recovered] == [(other, "gone", "pending")]
    assert queue.get(by_hand).status == "claimed", "holders without a lease are left alone"


def test_ended_jobs_are_pruned_as_asked(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    from treadle.db.line import Line
    from treadle.worker import upkeep

    app = Treadle(url, keep={"completed": "1h", "failed": None})
    for status in ("completed", "failed", "cancelled"):
        connection.execute(
            """insert into jobs (job_type, status, finished_at) select 'a', %s, now() - age
            from unnest('{5 minutes, 2 hours, 20 days, 90 days}'::interval[]) as age""",
            [status],
        )

    async def body() -> int:
        line = Line(url, "test")
        try:
            return await upkeep.prune(line, "treadle", app.keep)
        finally:
            await line.close()

    assert asyncio.run(body()) == 3 + 2
    assert dict(connection.execute("select status, count(*) from jobs group by 1").fetchall()) == {
        "completed": 1,
        "failed": 4,
        "cancelled": 2,
    }


def test_errors_go_with_their_job(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    for name in ("a", "b"):
        job_id = queue.enqueue(name)
        (row,) = queue.claim([name])
        queue.fail(row, "broken", final=True)
        assert [error.error for error in queue.errors(job_id)] == ["broken"]
    connection.execute("delete from jobs where job_type = 'a'")
    assert connection.execute("select count(*) from errors").fetchone() == (1,)
    queue.prune("failed", 0)
    assert connection.execute("select count(*) from errors").fetchone() == (0,)


# The worker itself


def test_job_types_that_are_not_known_here_are_left_alone(app: Treadle, queue: JobQueue) -> None:
    @app.job
    async def known() -> None: ...

    @app.job
    async def not_chosen() -> None: ...

    async def body(worker: Worker) -> None:
        unknown, unchosen = queue.enqueue("unknown"), await not_chosen.aenqueue()
        await (await known.aenqueue()).aresult(10)
        for row in (queue.get(unknown), await unchosen.ajob()):
            assert (row.status, row.attempts) == ("pending", 0)

    run(app, body, types=["known"])


def test_a_worker_registers_and_leaves(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        rows = connection.execute("select worker_id, job_types, concurrency, pid, lost_at from workers").fetchall()
        assert rows == [(worker.worker_id, ["hello"], 7, os.getpid(), None)]

    run(app, body, concurrency=7)
    assert connection.execute("select count(*) from workers").fetchone() == (0,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concurrency": 0}, "concurrency must be an integer from 1"),
        ({"types": ["nope"]}, "no job type 'nope' here; known are: hello"),
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


def test_drain_runs_what_is_there_and_ends(app: Treadle, connection: Connection[Any]) -> None:
    @app.job(max_attempts=2, backoff=NOW)
    async def shaky(job: Job, n: int) -> None:
        if job.attempt == 1 and n % 10 == 0:
            raise ValueError("first time")

    shaky.enqueue_many({"n": n} for n in range(200))
    app.run_worker(drain=True, concurrency=20)
    assert count(connection, "status = 'completed'") == 200
    app.close()


def test_an_idle_worker_is_quiet(app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """At most two statements a second: its own, and those of the process that renews its lease."""
    from treadle.db.line import Line
    from treadle.db.query import Query

    real, statements = Line.run, 0

    async def counted(line: Line, query: Query[Any]) -> Any:
        nonlocal statements
        statements += 1
        return await real(line, query)

    monkeypatch.setattr(Line, "run", counted)

    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> float:
        await (await hello.aenqueue()).aresult(10)
        await until(lambda: worker.hears)
        await asyncio.sleep(2)
        before, began, renewals = statements, time.monotonic(), set()
        while time.monotonic() < began + 6:
            renewals |= set(connection.execute("select seen_at from workers").fetchall())
            await asyncio.sleep(0.1)
        assert 1 < len(renewals) < 5
        return (statements - before + len(renewals)) / (time.monotonic() - began)

    assert run(app, body) <= 2


def test_nothing_is_left_behind(app: Treadle) -> None:
    """Threads, file descriptors and tasks, after workers have come and gone."""

    @app.job
    def hello() -> None: ...

    async def body(worker: Worker) -> None:
        await (await hello.aenqueue()).aresult(10)

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    run(app, body)
    before = descriptors()
    for _ in range(3):
        run(app, body)
    assert descriptors() <= before + 1
