"""Handlers that block their thread or process are interrupted by an exception, and nothing else ever is."""

import inspect
import sys
import threading
import time
from types import FrameType
from typing import Any

import pytest

from tests.support.handlers import app as handlers_app
from tests.support.handlers import nap_in_child, sleep_in_child
from tests.support.workers import Ledger, auntil, run
from treadle import Job, JobCancelled, JobFailed, JobInterrupted, Retries, TimedOut, Treadle
from treadle.words import interruption as module
from treadle.words.errors import INTERRUPTIONS
from treadle.words.interruption import Interruption, SignalledInterruption, uninterrupted
from treadle.words.outcome import Interrupt
from treadle.worker.worker import Worker


def test_a_handler_that_blocks_its_thread_is_interrupted(app: Treadle) -> None:
    seen: list[str] = []
    started = threading.Event()

    def block() -> None:
        while True:
            time.sleep(0.005)

    @app.job(timeout=0.1, retry=Retries(0))
    def late() -> None:
        try:
            block()
        except TimedOut:
            seen.append("late: except")
            raise
        finally:
            seen.append("late: finally")

    @app.job
    def cancelled() -> None:
        started.set()
        try:
            block()
        except Exception:
            seen.append("not this")
        finally:
            seen.append("cancelled: finally")

    @app.job(timeout=0.1)
    def tidy(job: Job) -> str:
        while not job.cancelled:
            time.sleep(0.005)
        time.sleep(module.NOTICE_SECONDS)
        return "tidy"

    async def body(worker: Worker) -> None:
        with pytest.raises(JobFailed, match=r"timed out after 0\.1 seconds"):
            await (await late.aenqueue()).aresult(30)
        handle = await cancelled.aenqueue()
        await auntil(started.is_set)
        await handle.acancel("enough")
        with pytest.raises(JobCancelled, match="enough"):
            await handle.aresult(30)
        await auntil(lambda: len(worker.running) == 0)
        assert await (await tidy.aenqueue()).aresult(30) == "tidy"

    run(app, body, concurrency=1)
    assert seen == ["late: except", "late: finally", "cancelled: finally"]


@pytest.mark.own_database
@pytest.mark.usefixtures("handlers_use_test_database")
def test_a_handler_that_blocks_its_process_is_interrupted(ledger: Ledger) -> None:
    """In the middle of a call of the system; and the process can be used again."""

    async def body(worker: Worker) -> None:
        with pytest.raises(JobFailed, match=r"timed out after 0\.1 seconds"):
            await (await sleep_in_child.aenqueue()).aresult(60)
        assert await (await nap_in_child.aenqueue(seconds=0)).aresult(60) == 1

    run(handlers_app, body, children=1)
    entries = ledger.entries()
    assert [each["what"] for each in entries] == ["start", "timed out", "start", "end"]
    assert len({each["pid"] for each in entries}) == 1


@pytest.mark.parametrize("kind", [Interruption, SignalledInterruption])
def test_an_interruption_never_arrives_outside_of_the_handler(kind: type[Interruption]) -> None:
    """It is sent before each single step of the code around the handler, in turn."""
    outcomes: set[Any] = set()
    for step in range(1, 10_000):
        interruption = kind()
        sender = _interrupted_at(step, interruption)
        torn: list[int] = []

        def handler(torn: list[int] = torn) -> str:
            with uninterrupted():
                torn.append(1)
                torn.append(1)
            return "result"

        try:
            sys.settrace(sender)
            done, value = interruption.call(handler)
        finally:
            sys.settrace(None)
        if sender.sent:
            sender.thread.join(10)
        for _ in range(100):
            _pass()  # where it would arrive if it were still on its way
        assert len(torn) in (0, 2), step
        assert (done, value) == (True, "result") or (not done and isinstance(value, TimedOut)), step
        outcomes.add(done)
        if not sender.sent:
            break
    assert outcomes == {True, False}
    assert step > 50


class _interrupted_at:  # noqa: N801
    """A tracer that lets another thread interrupt before this step, counted in the code of interruption.py and of the
    handler. A thread that has to wait for the lock comes as soon as it is free."""

    def __init__(self, step: int, interruption: Interruption) -> None:
        self.left = step
        self.sent = False
        self.interruption = interruption
        self.thread = threading.Thread(target=interruption.interrupt, args=(Interrupt.TIMEOUT,))

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in (module.__file__, __file__) or threading.current_thread() is self.thread:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                self.sent = True
                self.thread.start()
                self.thread.join(0.02)  # not if the lock is held
        return self


def _pass() -> None:
    pass


def test_a_job_in_the_same_thread_is_not_interrupted_for_the_one_before(
    app: Treadle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler has returned when it is interrupted."""
    end = Interruption.end

    def late(interruption: Interruption) -> None:
        sender = threading.Thread(target=interruption.interrupt, args=(Interrupt.TIMEOUT,))
        sender.start()
        sender.join()
        end(interruption)

    monkeypatch.setattr(Interruption, "end", late)

    @app.job(retry=Retries(0))
    def count(n: int) -> int:
        return sum(1 for _ in range(n))

    async def body(worker: Worker) -> None:
        for _ in range(5):
            assert await (await count.aenqueue(1000)).aresult(30) == 1000

    run(app, body, concurrency=1)


def test_a_handler_is_called_once_whenever_its_interruption_arrives() -> None:
    """Here, when the handler has failed and that is not noted yet."""
    lines, first = inspect.getsourcelines(Interruption.call)
    noted = first + next(nth for nth, line in enumerate(lines) if "ended = False, error" in line)
    calls = []

    def handler() -> None:
        calls.append(1)
        raise ValueError("no")

    def arrive(frame: FrameType, event: str, _: object) -> Any:
        if event == "line" and frame.f_lineno == noted:
            raise INTERRUPTIONS[Interrupt.TIMEOUT]
        return arrive if frame.f_code is Interruption.call.__code__ else None

    sys.settrace(arrive)
    try:
        done, error = Interruption().call(handler)
    finally:
        sys.settrace(None)
    assert (calls, done, type(error)) == ([1], False, TimedOut)


def test_an_interruption_before_the_handler_begins() -> None:
    interruption = Interruption()
    interruption.interrupt(Interrupt.CANCELLED)
    done, value = interruption.call(lambda: "not called")
    assert not done
    assert isinstance(value, JobInterrupted)
    assert value.reason is Interrupt.CANCELLED


def test_nothing_is_sent_after_the_handler_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(Interruption, "send", lambda *given: sent.append(given))
    interruption = Interruption()
    assert interruption.call(lambda: "result") == (True, "result")
    interruption.interrupt(Interrupt.TIMEOUT)
    assert sent == []
    assert interruption._pending is None
