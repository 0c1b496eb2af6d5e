"""When a worker is said to be stuck, and when not. With job slots, as in real workers, and times that are passed in."""

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from psycopg import Connection

from tests.support.doctor import get_finding
from tests.support.workers import auntil, one, run
from treadle import Treadle
from treadle.db.query import Query
from treadle.db.reconnecting import DatabaseUnavailable
from treadle.operations.metrics import exposition, metrics
from treadle.text.stuck import describe_stuck
from treadle.why.explain import why
from treadle.words.stuck import Stuck
from treadle.worker import pulse, stacks
from treadle.worker.job_slots import STACK_BYTES, EventLoop, JobSlots, State
from treadle.worker.keeper import Keeper
from treadle.worker.pulse import CHECK_SECONDS, ChildWatch, Kind, PulseWatch, Scheduling, StoppedChild, scheduling
from treadle.worker.worker import Worker


@pytest.fixture
def slots() -> Iterator[JobSlots]:
    slots = JobSlots.create(3)
    slots.event_loop = EventLoop(threading.get_ident(), threading.get_native_id(), os.getpid())
    slots.pulse = 1000.0
    yield slots
    slots.close()


def look(watch: PulseWatch, seconds: float, start: float = 1000.0, every: float = CHECK_SECONDS) -> list[Kind | None]:
    """Check regularly for so long. Returns what has changed."""
    checks = round(seconds / every)
    return [watch.stuck and watch.stuck.kind for nth in range(checks + 1) if watch.check(start + nth * every)]


def test_a_worker_is_stuck_after_two_seconds_without_a_pulse_until_the_next(slots: JobSlots) -> None:
    watch = PulseWatch(slots)
    assert look(watch, 1.8) == []
    assert look(watch, 30, 1002) == [Kind.BLOCKED], "it is said once"
    assert watch.stuck
    assert watch.stuck.since == 1000
    slots.pulse = 1034
    assert look(watch, 1, 1034) == [None]
    slots.pulse = 0
    assert look(watch, 60, 1036) == [], "a worker that has ended is not stuck"


def test_time_in_which_nobody_could_look_does_not_count(slots: JobSlots) -> None:
    """The machine was suspended, or the process that looks got no processor."""
    watch = PulseWatch(slots)
    watch.check(1000.0)
    watch.check(5000.0)
    watch.check(9000.0)
    assert watch.stuck is None
    assert look(watch, 3, 9000.2) == [Kind.BLOCKED]


@pytest.mark.parametrize(
    ("ran", "waited", "stuck"), [(0.0, 0.9, False), (0.02, 0.6, False), (0.2, 0.8, True), (0.0, 0.3, True)]
)
def test_a_worker_without_a_processor_is_not_stuck(
    slots: JobSlots, monkeypatch: pytest.MonkeyPatch, ran: float, waited: float, stuck: bool
) -> None:
    """Per second. One that has run for a quarter of a second could have given a sign."""
    moments = iter(range(10_000))

    def passed(_: EventLoop) -> Scheduling:
        seconds = next(moments) * CHECK_SECONDS
        return Scheduling(7 + ran * seconds, 9 + waited * seconds)

    monkeypatch.setattr(pulse, "scheduling", passed)
    assert look(PulseWatch(slots), 8) == ([Kind.BLOCKED] if stuck else [])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say it")
def test_the_system_says_how_long_a_thread_has_run(slots: JobSlots) -> None:
    before = scheduling(slots.event_loop)
    if before is None:
        pytest.skip("this kernel does not say it")
    end = time.thread_time() + 0.1
    while time.thread_time() < end:
        pass
    after = scheduling(slots.event_loop)
    assert after
    assert after.ran - before.ran >= 0.09
    assert scheduling(EventLoop()) is None


def test_the_stack_of_a_silence_that_has_ended_is_forgotten(slots: JobSlots) -> None:
    watch = PulseWatch(slots)
    slots.stack = "{}\nold"
    slots.pulse = 1000.5
    look(watch, 0.4, 1000.6)
    assert slots.stack == ""


def test_a_stack_that_comes_late_is_reported_once(slots: JobSlots) -> None:
    watch = PulseWatch(slots)
    assert look(watch, 4) == [Kind.BLOCKED]
    slots.stack = '{}\n  File "a.py", line 1, in a\n'
    assert look(watch, 4, 1004.2) == [Kind.BLOCKED]
    assert watch.stuck
    assert watch.stuck.stack


def test_a_stopped_process_that_goes_on_has_time_to_give_a_sign(
    slots: JobSlots, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, stopped = PulseWatch(slots), [True]
    monkeypatch.setattr(pulse, "is_stopped", lambda _: stopped[0])
    assert look(watch, 60) == [Kind.STOPPED]
    stopped[0] = False
    assert look(watch, 1.8, 1060.2) == []
    assert look(watch, 3, 1062.2) == [Kind.BLOCKED], "it was continued, and is blocked"


def test_a_stack_is_bounded_and_begins_in_the_handler(slots: JobSlots) -> None:
    frames: dict[int, Any] = {}

    def deep(depth: int) -> None:
        if depth:
            deep(depth - 1)
        else:
            frames.update(sys._current_frames())

    deep(500)
    job = uuid4()
    slots.stack = stacks.write(frames, threading.get_ident(), (job, "resize"))
    found = stacks.read(slots.stack, threading.get_ident())
    assert (found.job, found.job_type, found.is_own) == (job, "resize", True)
    assert found.text
    assert len(found.text) <= stacks.CHARACTERS
    assert "frames left out" in found.text
    described = describe_stuck(Stuck(_moment(0), "blocked", job, "resize", found.text), _moment(7))
    assert described.startswith(f"its event loop has been blocked for 7.0s by job {job} (resize), at ")
    assert described.endswith("in deep")
    slots.stack = "x" * 10 * STACK_BYTES
    assert len(slots.stack) == STACK_BYTES - 1


def test_a_dump_names_all_threads_that_do_something() -> None:
    dump = """Thread 0x00000000000000aa (most recent call first):
  File "/usr/lib/python3/threading.py", line 327 in wait
  File "/app/idle.py", line 1 in idle

Thread 0x00000000000000bb (most recent call first):
  File "/app/jobs.py", line 12 in holds_the_gil
  File "/app/jobs.py", line 30 in resize

Current thread 0x00000000000000cc (most recent call first):
  File "/app/db.py", line ??? in send
"""
    found = stacks.read(dump, 0xCC)
    assert (found.job, found.is_own) == (None, False)
    assert found.text == (
        "No thread of the process answered: one of them does not release the GIL.\n"
        'Another thread:\n  File "/app/jobs.py", line 30, in resize\n  File "/app/jobs.py", line 12, in holds_the_gil\n'
        '\nThe thread of the event loop:\n  File "/app/db.py", line 0, in send\n'
    )
    assert stacks.read("", 1) == stacks.Found()


@pytest.mark.own_database
def test_no_statement_is_added_while_the_event_loop_runs(url: str, connection: Connection[Any]) -> None:
    connection.execute("select register_worker('me', '1 minute', '{a}')")
    texts: list[str] = []

    async def body() -> None:
        keeper, slots = Keeper(url, "treadle", timedelta(minutes=1), 3), JobSlots.create(1)
        failing = [False]
        actual = keeper.connection.run

        async def noted(query: Query[Any]) -> Any:
            texts.append("report_stuck" if "report_stuck" in query.text else "renew_workers")
            if failing[0] and texts[-1] == "report_stuck":
                raise DatabaseUnavailable("no")
            return await actual(query)

        keeper.connection.run = noted  # type: ignore[method-assign]
        keeper.add("me", slots)
        slots.event_loop = EventLoop(threading.get_ident(), threading.get_native_id(), os.getpid())
        slots.pulse = 1.0
        running = asyncio.gather(keeper.renew(), keeper.watch())
        await auntil(lambda: texts)
        for nth in range(20):  # a pulse every 0.1 s
            slots.pulse = nth + 2
            await asyncio.sleep(0.1)
        assert texts == ["renew_workers"]

        failing[0] = True
        await auntil(lambda: "report_stuck" in texts)
        assert texts == ["renew_workers", "renew_workers", "report_stuck"], "the lease comes first"
        await asyncio.sleep(0.5)
        assert len(texts) == 3, "a report that failed is sent after the next renewal, not at once"
        failing[0] = False
        keeper._changed.set()
        await auntil(lambda: one(connection, "select stuck_kind from workers"))
        slots.pulse = 100
        await auntil(lambda: not one(connection, "select stuck_kind from workers"))
        assert texts[3:] == ["renew_workers", "report_stuck"] * 2
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await keeper.close()
        slots.close()

    asyncio.run(body())


@pytest.mark.own_database
def test_a_keeper_that_replaces_another_forgets_what_that_has_reported(
    app: Treadle, connection: Connection[Any]
) -> None:
    @app.job
    async def work() -> None: ...

    async def body(worker: Worker) -> None:
        connection.execute("select report_stuck(%s, 'stopped', 9)", [worker.worker_id])
        os.kill(worker.keeper_pid or 0, signal.SIGKILL)
        await auntil(lambda: one(connection, "select stuck_kind from workers") is None)

    run(app, body, keeper_process=True)


@pytest.mark.own_database
def test_a_worker_in_a_program_is_watched_by_its_keeper(app: Treadle, connection: Connection[Any]) -> None:
    """With the job that a task of its handler belongs to, from Python 3.12 on."""

    @app.job
    async def sleep_in_a_task() -> None:
        async def sleep() -> None:
            until_stuck("password=hunter2")

        await asyncio.create_task(sleep()) if sys.version_info >= (3, 12) else await sleep()

    def until_stuck(_: str) -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end and one(connection, "select stuck_kind from workers") is None:
            time.sleep(0.05)
        found = connection.execute("select stuck_kind, stuck_job_type, stuck_stack from workers").fetchone()
        assert found
        assert found[:2] == ("blocked", "sleep_in_a_task")
        assert "in until_stuck" in found[2]
        assert "hunter2" not in found[2]
        assert "/asyncio/" not in found[2]

    async def body(_: Worker) -> None:
        await (await sleep_in_a_task.aenqueue()).aresult(30)
        await auntil(lambda: one(connection, "select stuck_kind from workers") is None)

    run(app, body, keeper_process=True)


def _moment(second: int) -> Any:
    from datetime import UTC, datetime

    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def test_a_child_process_is_reported_after_three_seconds_in_which_it_was_seen_stopped(
    slots: JobSlots, monkeypatch: pytest.MonkeyPatch
) -> None:
    ill = {7}
    monkeypatch.setattr(pulse, "is_stopped", ill.__contains__)
    job = uuid4()
    slots.add(uuid4(), 1, 0.0)
    slots.add(uuid4(), 1, 0.0, process=8)
    slot = slots.add(job, 1, 0.0, process=7)
    watch = ChildWatch(slots)
    checks = [watch.check(1000 + nth / 5) for nth in range(3)]
    assert not any(checks)
    watch.check(5000.0)
    assert not watch.stopped, "time in which nobody looked does not count"
    assert [watch.check(5001.0 + nth) for nth in range(3)] == [True, False, False]
    assert list(watch.stopped) == [StoppedChild(7, job, 1000.0)]
    slots.remove(slot)
    slots.add(uuid4(), 1, 0.0, process=7)
    assert watch.check(5004.0)
    assert not watch.stopped, "another job in the same process begins anew"
    ill.clear()
    assert [watch.check(5005.0 + nth) for nth in range(9)] == [False] * 9


def test_a_child_process_that_starts_slowly_is_noticed_until_it_has_started(
    app: Treadle, slots: JobSlots, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute("select register_worker('w1', '1 minute', '{a}')")
    (job,) = app.queue.enqueue_many("a", [1])
    connection.execute("select claim_jobs('w1', '{a}', 1)")
    slot = slots.add(job, 1, 0.0, state=State.STARTING)
    began = slots.begun_at

    async def body() -> None:
        keeper = Keeper(app.database.url, app.schema, timedelta(seconds=30), 3)
        worker = keeper.add("w1", slots)
        assert not worker.check(began + 9)
        assert worker.check(began + 11)
        await keeper.report()
        await keeper.close()

    asyncio.run(body())
    reason = why(app.database, job)
    assert reason.name == "process_starting"
    assert "its child process has been starting for" in reason.sentence
    finding = get_finding(app.database.url, "stopped_children")
    assert finding.title == "A child process of a worker starts slowly: its job waits."
    assert "a child process has been starting for" in finding.detail
    assert f"with job {job} (a)" in finding.detail
    assert "importtime" in finding.remedy
    assert "treadle_stopped_children 0" in exposition(metrics(app.database))
    watch = ChildWatch(slots)
    assert watch.check(began + 11)
    slots.remove(slot)
    slots.add(job, 1, 0.0, process=7)
    assert watch.check(began + 13)
    assert watch.stopped == ()
    app.close()


def test_a_report_of_stopped_children_that_failed_is_sent_again(
    app: Treadle, slots: JobSlots, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute("select register_worker('w1', '1 minute', '{a}')")
    monkeypatch.setattr(pulse, "is_stopped", {7}.__contains__)
    job = uuid4()
    slot = slots.add(job, 1, 0.0, process=7)

    def reported() -> Any:
        return one(connection, "select stopped_children from workers")

    async def body() -> None:
        keeper = Keeper(app.database.url, app.schema, timedelta(seconds=30), 3)
        worker = keeper.add("w1", slots)
        for nth in range(4):
            worker.check(1000.0 + nth)
        sent: list[Query[Any]] = []

        async def fail(query: Query[Any]) -> None:
            sent.append(query)
            raise DatabaseUnavailable("gone")

        with monkeypatch.context() as patch:
            patch.setattr(keeper.connection, "run", fail)
            await keeper.report()
        assert len(sent) == 1
        assert reported() is None
        await keeper.report()
        (found,) = reported()
        assert (found["process"], found["job_id"]) == (7, str(job))
        slots.pulse = 0.0
        slots.remove(slot)
        worker.check(1010.0)
        await keeper.report()
        assert reported() is None
        await keeper.close()

    asyncio.run(body())
