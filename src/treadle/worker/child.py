"""The inside of a child process: takes a job from the pipe, runs it, and sends its outcome back.

A second thread reads the pipe, so that a request to stop is heard while the handler runs, and ends the process when the
worker is gone.
"""

import asyncio
import contextlib
import importlib
import json
import os
import queue
import signal
import threading
from collections.abc import Callable
from datetime import datetime
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any
from uuid import UUID

from treadle.app.function import JobFunction
from treadle.app.job import Job, running_job
from treadle.words.claim import Claim
from treadle.words.outcome import Ending, Interrupt, Outcome
from treadle.worker.judge import raised, returned

PROGRESS_SECONDS = 0.1


class Current:
    """The job that runs now, for the threads beside it, and the pipe that all of them share."""

    def __init__(self, pipe: "Connection[Any, Any]") -> None:
        self.job: Job | None = None
        self.stop: Callable[[], object] | None = None
        self._pipe = pipe
        self._lock = threading.Lock()

    def send(self, message: dict[str, object]) -> None:
        with self._lock:
            self._pipe.send_bytes(json.dumps(message).encode())


def work(pipe: "Connection[Any, Any]") -> None:
    # The worker decides when to stop; Ctrl-C in a terminal reaches everybody.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    current = Current(pipe)
    threading.Thread(target=_listen, args=(pipe, orders, current), daemon=True).start()
    threading.Thread(target=_tell_progress, args=(current,), daemon=True).start()
    while True:
        order = orders.get()
        outcome = _run(order, current)
        current.job, current.stop = None, None
        current.send({"outcome": list(outcome)})


def _run(order: dict[str, Any], current: Current) -> Outcome:
    values = order["claim"]
    claim = Claim._make([UUID(values[0]), *values[1:-1], datetime.fromisoformat(values[-1])])
    job = Job(claim, order["worker_id"])
    try:
        function = _find(importlib.import_module(order["module"]), order["name"])
    except Exception as error:
        return Outcome(Ending.RETRY, error=f"its process could not find {order['module']}.{order['name']}: {error}")
    running_job.set(job)
    current.job = job
    current.send({"begun": True})
    try:
        arguments = function.arguments.load(claim.data, job)
        if function.is_async:
            return returned(function, asyncio.run(_cancellable(function, arguments, current)))
        return returned(function, function.function(**arguments))
    except BaseException as error:
        return raised(function, job, error)


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
        else:
            orders.put(message)


def _tell_progress(current: Current) -> None:
    pause = threading.Event()
    while not pause.wait(PROGRESS_SECONDS):
        job = current.job
        news = job.news() if job is not None else None
        if news is not None:
            current.send({"progress": news})
