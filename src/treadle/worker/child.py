"""The inside of a child process: takes a job from the pipe, runs it, and sends its outcome back.

A second thread reads the pipe, so that a request to stop is heard while the handler runs, and ends the process when the
worker is gone.
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
from collections.abc import Callable
from contextvars import copy_context
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any
from uuid import UUID

from treadle.app.function import JobFunction
from treadle.attempt.job import Job, running_job
from treadle.words.claim import Claim
from treadle.words.errors import DatabaseUnreachable
from treadle.words.outcome import Ending, Interrupt, Outcome
from treadle.worker.log_capture import Capture
from treadle.worker.outcomes import raised, returned

PROGRESS_SECONDS = 0.1
# What is told goes sooner, but not one by one.
GATHER_SECONDS = 0.01
EVENTS = 1000
SIZE = 1024 * 1024
FLUSH_SECONDS = 30.0


class Current:
    """The job that runs now, for the threads beside it, and the pipe that all of them share."""

    def __init__(self, pipe: "Connection[Any, Any]") -> None:
        self.job: Job | None = None
        self.stop: Callable[[], object] | None = None
        self.told = threading.Event()
        self.flushed = threading.Event()
        self.refused = False
        self._pipe = pipe
        self._lock = threading.Lock()

    def came(self, job: Job) -> None:
        self.told.set()

    def flush_now(self, job: Job) -> None:
        self.send_news(job)
        self.flushed.clear()
        self.send({"flush": True})
        if not self.flushed.wait(FLUSH_SECONDS) or self.refused:
            raise DatabaseUnreachable(f"what job {job.id} told could not be written")

    def send(self, message: dict[str, object]) -> None:
        with self._lock:
            self._pipe.send_bytes(json.dumps(message).encode())

    def send_news(self, job: Job) -> None:
        """All that the job said, told and logged."""
        with self._lock:
            while True:
                said, events, logs = job.news(), job.outbox.waiting_events(EVENTS, SIZE), job.outbox.waiting_logs(SIZE)
                if said is None and not events and not logs:
                    return
                self._pipe.send_bytes(json.dumps({"news": [said, events, logs]}).encode())
                if events:
                    job.outbox.events_written(events[-1].sequence)
                if logs:
                    job.outbox.logs_written(logs[-1].sequence)


def work(pipe: "Connection[Any, Any]") -> None:
    # The worker decides when to stop; Ctrl-C in a terminal reaches everybody.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    current = Current(pipe)
    threading.Thread(target=_listen, args=(pipe, orders, current), daemon=True).start()
    threading.Thread(target=_tell_news, args=(current,), daemon=True).start()
    # One loop for all of them: the application's connections live and die with it.
    with asyncio.Runner() as runner:
        while True:
            order = orders.get()
            outcome = _run(order, current, runner)
            job, current.job, current.stop = current.job, None, None
            if job is not None:
                current.send_news(job)
            current.send({"outcome": list(outcome)})


def _run(order: dict[str, Any], current: Current, runner: asyncio.Runner) -> Outcome:
    # As in the worker; what the function's module sets up when it is imported comes after that.
    logging.getLogger().setLevel(order["log_level"])
    job_id, *values = order["claim"]
    claim = Claim(UUID(job_id), *values)
    try:
        function = _find(importlib.import_module(order["module"]), order["name"])
    except Exception as error:
        return Outcome(Ending.RETRY, error=f"its process could not find {order['module']}.{order['name']}: {error}")
    function.backend.database.use(order["url"])
    capture = Capture()
    capture.start(function.policy.prints)
    job = Job(claim, order["worker_id"], function, current)
    running_job.set(job)
    current.job = job
    current.send({"begun": True})
    try:
        arguments = function.arguments.load(claim.data, job)
        if function.is_async:
            result = runner.run(_cancellable(function, arguments, current), context=copy_context())
            return returned(function, job, result)
        return returned(function, job, function.function(**arguments))
    except BaseException as error:
        return raised(function, job, error)
    finally:
        job.end_line()
        capture.stop()


def _find(module: ModuleType, name: str) -> JobFunction[..., Any, ..., Any]:
    """The job function that was made of the function of this name, whatever it is called in the module."""
    found: Any = module
    for step in name.split("."):
        found = getattr(found, step, None)
    if isinstance(found, JobFunction):
        return found
    for value in vars(module).values():
        if isinstance(value, JobFunction) and value.function.__qualname__ == name:
            return value
    raise LookupError("there is no such job function in that module")


async def _cancellable(function: JobFunction[..., Any, ..., Any], arguments: dict[str, Any], current: Current) -> Any:
    loop = asyncio.get_running_loop()
    task = loop.create_task(function.function(**arguments))
    current.stop = lambda: loop.call_soon_threadsafe(task.cancel)
    return await task


def _listen(pipe: "Connection[Any, Any]", orders: "queue.SimpleQueue[dict[str, Any]]", current: Current) -> None:
    while True:
        try:
            message = json.loads(pipe.recv_bytes())
        except Exception:  # without orders there is nothing to do here
            os._exit(1)
        if "interrupt" in message:
            job, stop = current.job, current.stop
            if job is not None:
                job.interrupt(Interrupt(message["interrupt"]))
            if stop is not None:
                with contextlib.suppress(RuntimeError):  # its loop has ended in this moment
                    stop()
        elif "flushed" in message:
            current.refused = not message["flushed"]
            current.flushed.set()
        else:
            orders.put(message)


def _tell_news(current: Current) -> None:
    while True:
        if current.told.wait(PROGRESS_SECONDS):
            time.sleep(GATHER_SECONDS)
            current.told.clear()
        job = current.job
        if job is not None:
            current.send_news(job)
