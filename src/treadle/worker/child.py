"""The inside of a child process: receives a job through the pipe, runs it, and sends its outcome back.

A second thread reads the pipe: it receives requests to stop while the handler runs, and ends the process when the
worker is gone. A third thread sends progress, events and log lines.
"""

import asyncio
import contextlib
import importlib
import json
import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any
from uuid import UUID

from treadle.attempt.attempt import Attempt, running_attempt, running_job_fields
from treadle.attempt.job import job_of
from treadle.jobs.function import JobFunction
from treadle.jobs.load import load
from treadle.text.exceptions import clean_error
from treadle.words.errors import DatabaseUnreachable
from treadle.words.interruption import NOTICE_SECONDS, Interruption, SignalledInterruption, uninterrupted
from treadle.words.job import Claim
from treadle.words.outcome import Ending, Interrupt, Outcome
from treadle.worker import log_format
from treadle.worker.log_capture import Capture
from treadle.worker.outcomes import raised, returned
from treadle.worker.running import environment_of

PROGRESS_SECONDS = 0.1
# Events and log lines are sent sooner than progress, but in batches.
GATHER_SECONDS = 0.01
# Events in one message.
EVENTS = 1000
# Characters of events, and of log lines, in one message.
SIZE = 1024 * 1024
FLUSH_SECONDS = 30.0


class ChildState:
    """The attempt that is running, and the pipe to the worker: all threads of the child share them."""

    def __init__(self, pipe: "Connection[Any, Any]") -> None:
        self.attempt: Attempt | None = None
        self.stop: Callable[[], object] | None = None
        self.interruption: Interruption | None = None
        self.main: asyncio.Task[Any] | None = None
        """What waits for the handler on the event loop."""
        self.has_records = threading.Event()
        self.flushed = threading.Event()
        self.flush_failed = False
        self.spoilt = False
        """Another job must not run in this process."""
        self._pipe = pipe
        self._lock = threading.Lock()

    def notify(self, attempt: Attempt) -> None:
        self.has_records.set()

    def flush_now(self, attempt: Attempt) -> None:
        self.send_records(attempt)
        self.flushed.clear()
        self.send({"flush": True})
        if not self.flushed.wait(FLUSH_SECONDS) or self.flush_failed:
            raise DatabaseUnreachable(f"the events of job {attempt.claim.id} could not be written")

    def send(self, message: dict[str, object]) -> None:
        with uninterrupted(), self._lock:
            self._pipe.send_bytes(json.dumps(message).encode())

    def send_records(self, attempt: Attempt) -> None:
        """Send all progress, events and log lines."""
        outbox = attempt.outbox
        with uninterrupted(), self._lock:
            while True:
                progress = attempt.take_progress()
                events, log_lines = outbox.next_events(EVENTS, SIZE), outbox.next_log_lines(SIZE)
                if progress is None and not events and not log_lines:
                    return
                self._pipe.send_bytes(json.dumps({"records": [progress, events, log_lines]}).encode())
                if events:
                    outbox.events_written(events[-1].sequence)
                if log_lines:
                    outbox.log_lines_written(log_lines[-1].sequence)


def work(pipe: "Connection[Any, Any]") -> None:
    # The worker decides when to stop: Ctrl-C in a terminal also reaches the children.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    state = ChildState(pipe)
    threading.Thread(target=_listen, args=(pipe, orders, state), daemon=True).start()
    threading.Thread(target=_send_records, args=(state,), daemon=True).start()
    # One event loop for all jobs: the application's connections belong to it.
    with asyncio.Runner() as runner:
        while True:
            order = orders.get()
            outcome = _run(order, state, runner)
            attempt, state.attempt, state.stop, state.interruption = state.attempt, None, None, None
            if attempt is not None:
                state.send_records(attempt)
            state.send({"outcome": list(outcome._replace(exception=None))})
            if state.spoilt:
                os._exit(1)  # the worker starts another one


def _run(order: dict[str, Any], state: ChildState, runner: asyncio.Runner) -> Outcome:
    if order["log"] is not None and log_format.options is None:
        log_format.set_up(*log_format.LogOptions(*order["log"]), job=running_job_fields)
    # The level of the worker. The function's module may set another one when it is imported.
    logging.getLogger().setLevel(order["log_level"])
    job_id, *values = order["claim"]
    claim = Claim(UUID(job_id), *values)
    try:
        function = _function(order, claim.job_type)
        backend = function.backend
    except Exception as error:
        problem = f"its process could not find {order['module']}.{order['name']}: {error}"
        return Outcome(Ending.RETRY, error=clean_error(problem))
    backend.own.use(order["url"])
    capture = Capture()
    capture.start(function.policy.prints)
    attempt = Attempt(claim, environment_of(function, order["worker_id"]), state)
    running_attempt.set(attempt)
    attempt.begun_once = function.policy.at_most_once
    state.attempt = attempt
    state.send({"started": True})
    try:
        arguments = attempt.arguments = function.arguments.load(claim.data, attempt)
        handler = partial(function.function, **arguments)
        middlewares = function.backend.middlewares
        if function.is_async:
            called = middlewares.acall(job_of(attempt), handler)
            state.main = None
            try:
                value = runner.run(_cancellable(called, state), context=copy_context())
            finally:
                # A handler has left the event loop, by SystemExit, or has stopped it. What it leaves behind there would
                # end the next job, too.
                state.spoilt = state.main is None or not state.main.done()
            return returned(function, attempt, value)
        state.interruption = SignalledInterruption()
        if attempt.interrupted_by is not None:  # before there was anything to interrupt
            _interrupt_soon(attempt, state.interruption)
        done, value = state.interruption.call(partial(middlewares.call, job_of(attempt), handler))
        if not done:
            raise value  # noqa: TRY301
        return returned(function, attempt, value)
    except BaseException as error:
        return raised(function, attempt, error)
    finally:
        attempt.end_line()
        capture.stop()


def _function(order: dict[str, Any], job_type: str) -> JobFunction[..., Any, ..., Any]:
    """The function of the application, which is loaded as the worker has loaded it: it includes groups and sets up what
    its handlers need. Of a program that no module names, the function that its own module declares."""
    if order["app"] is not None:
        functions = load(order["app"]).workload.functions
        if job_type in functions.job_types:
            return functions.function(job_type)
    return _find(importlib.import_module(order["module"]), order["name"])


def _find(module: ModuleType, name: str) -> JobFunction[..., Any, ..., Any]:
    """The job function that wraps the function with this name; the module may have it under another name."""
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, JobFunction):
        return found
    for value in vars(module).values():
        if isinstance(value, JobFunction) and value.function.__qualname__ == name:
            return value
    raise LookupError("there is no such job function in that module")


async def _cancellable(called: Coroutine[Any, Any, Any], state: ChildState) -> Any:
    loop = asyncio.get_running_loop()
    state.main = asyncio.current_task()
    task = loop.create_task(called)
    state.stop = lambda: loop.call_soon_threadsafe(task.cancel)
    if state.attempt is not None and state.attempt.interrupted_by is not None:
        task.cancel()  # before there was anything to stop
    return await task


def _listen(pipe: "Connection[Any, Any]", orders: "queue.SimpleQueue[dict[str, Any]]", state: ChildState) -> None:
    while True:
        try:
            message = json.loads(pipe.recv_bytes())
        except Exception:  # the worker is gone
            os._exit(1)
        if "interrupt" in message:
            attempt, stop, interruption = state.attempt, state.stop, state.interruption
            if attempt is not None:
                attempt.interrupt(Interrupt(message["interrupt"]))
            if attempt is not None and interruption is not None:
                _interrupt_soon(attempt, interruption)
            if stop is not None:
                with contextlib.suppress(RuntimeError):  # the event loop has just stopped
                    stop()
        elif "flushed" in message:
            state.flush_failed = not message["flushed"]
            state.flushed.set()
        else:
            orders.put(message)


def _interrupt_soon(attempt: Attempt, interruption: Interruption) -> None:
    """A handler that checks its job may stop in its own way."""

    def interrupt() -> None:
        if attempt.interrupted_by is not None and not attempt.noticed:
            interruption.interrupt(attempt.interrupted_by)

    timer = threading.Timer(NOTICE_SECONDS, interrupt)
    timer.daemon = True
    timer.start()


def _send_records(state: ChildState) -> None:
    while True:
        if state.has_records.wait(PROGRESS_SECONDS):
            time.sleep(GATHER_SECONDS)
            state.has_records.clear()
        attempt = state.attempt
        if attempt is not None:
            state.send_records(attempt)
