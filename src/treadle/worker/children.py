"""Child processes that run one job at a time and can be killed alone.

Started when they are first needed, kept for the next job, replaced when they die. A thread of the worker stands for
each that works: it waits for the outcome, and kills the child at its deadline, beyond its memory limit, or when it
does not stop though asked to.
"""

import asyncio
import contextlib
import json
import logging
import math
import multiprocessing
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import psutil

from treadle.attempt.progress import Said
from treadle.words.errors import DatabaseUnreachable
from treadle.words.outcome import Ending, Interrupt, Outcome
from treadle.words.record import Logged, Told
from treadle.worker.child import work
from treadle.worker.exit_codes import died
from treadle.worker.outcomes import hungry, overdue, stopped
from treadle.worker.running import Running

# How long a child that was asked to stop may take. Cancelled jobs end within two seconds.
STOP_SECONDS = 1.0
LOOK_SECONDS = 0.1
# To start, and to import what the function needs.
START_SECONDS = 60.0


class Child:
    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=work, args=(theirs,), name="treadle-child")
        self.process.start()
        theirs.close()
        self.has_worked = False

    @property
    def pid(self) -> int:
        return self.process.pid or 0

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


class Children:
    def __init__(self, limit: int) -> None:
        self._threads = ThreadPoolExecutor(limit, thread_name_prefix="treadle-child")
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._working: set[Child] = set()
        self._closed = False

    async def run(self, running: Running, began: Callable[[int], None]) -> Outcome:
        stop = threading.Event()
        running.stop_child = stop.set
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, running, stop, began)

    def kill(self) -> None:
        with self._lock:
            self._closed = True
            everyone = [*self._idle, *self._working]
            self._idle.clear()
        for child in everyone:
            child.process.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(self, running: Running, stop: threading.Event, began: Callable[[int], None]) -> Outcome:
        started = math.inf

        def begins(process: int) -> None:
            nonlocal started
            started = time.monotonic()
            began(process)

        while True:
            if running.job.interrupted_by is not None:  # while it waited for a child
                return stopped(running.function, running.job)
            try:
                child = self._take()
            except OSError as error:  # out of processes or memory: not the job's fault
                return Outcome(Ending.RELEASED, delay=1.0, error=str(error))
            told = False
            try:
                outcome, told = self._converse(child, running, stop, begins)
                if outcome is None and child.has_worked and started == math.inf:
                    continue  # it died between two jobs
                return outcome or self._death(child, running, time.monotonic() - started)
            finally:
                self._give_back(child, keep=told)

    def _converse(
        self, child: Child, running: Running, stop: threading.Event, began: Callable[[int], None]
    ) -> tuple[Outcome | None, bool]:
        """The outcome (None if the child died), and whether the child itself told it: if not, it has to be killed."""
        policy, sent = running.function.policy, time.monotonic()
        started: float | None = None  # its time counts from when the handler begins, not from when its process does
        told_to_stop: float | None = None
        order = {
            "module": running.function.function.__module__,
            "name": running.function.function.__qualname__,
            "claim": [str(running.claim.id), *running.claim[1:]],
            "worker_id": running.job.worker_id,
            "url": running.function.backend.database.url,
            "log_level": logging.getLogger().level,
        }
        try:
            child.pipe.send_bytes(json.dumps(order).encode())
        except OSError:
            return None, False
        while True:
            if child.pipe in wait([child.pipe, child.process.sentinel], LOOK_SECONDS):
                try:
                    message = json.loads(child.pipe.recv_bytes())
                except (EOFError, OSError):
                    return None, False
                if "outcome" in message:
                    return Outcome(Ending(message["outcome"][0]), *message["outcome"][1:]), True
                if "news" in message:
                    said, told, logged = message["news"]
                    running.job.hear(
                        None if said is None else Said(*said),
                        [Told(*each) for each in told],
                        [Logged(*each) for each in logged],
                    )
                elif "flush" in message:
                    _tell(child.pipe, {"flushed": _flushed(running)})
                else:
                    started = time.monotonic()
                    began(child.pid)
            elif not child.process.is_alive() and not child.pipe.poll():
                return None, False
            now = time.monotonic()
            if started is None and now - sent > START_SECONDS:
                return Outcome(
                    Ending.RETRY, error=f"its process took more than {START_SECONDS:g} seconds to start"
                ), False
            if policy.timeout is not None and started is not None and now - started > policy.timeout:
                running.interrupt(Interrupt.TIMEOUT)
            if stop.is_set() and told_to_stop is None:
                told_to_stop = now
                _tell(child.pipe, {"interrupt": running.job.interrupted_by})
            if policy.memory_limit is not None and (used := _memory(child.pid)) > policy.memory_limit:
                return hungry(running.function, running.job, used), False
            if policy.deadline is not None and started is not None and now - started > policy.deadline:
                return overdue(running.function, running.job), False
            if (
                told_to_stop is not None
                and now - told_to_stop > STOP_SECONDS
                and running.job.interrupted_by is not Interrupt.TIMEOUT
            ):
                return stopped(running.function, running.job), False

    def _death(self, child: Child, running: Running, seconds: float) -> Outcome:
        child.process.join()
        if running.function.policy.deadline is not None and seconds > running.function.policy.deadline:
            return overdue(running.function, running.job)
        if running.job.interrupted_by is not None:
            return stopped(running.function, running.job)
        return Outcome(Ending.CRASHED, error=f"its process {died(child.process.exitcode)}")

    def _take(self) -> Child:
        with self._lock:
            while self._idle:
                child = self._idle.pop()
                if child.process.is_alive():
                    self._working.add(child)
                    return child
                child.kill()
        child = Child()
        with self._lock:
            self._working.add(child)
            if self._closed:
                child.process.kill()
        return child

    def _give_back(self, child: Child, keep: bool) -> None:
        with self._lock:
            self._working.discard(child)
            if keep and not self._closed:
                child.has_worked = True
                self._idle.append(child)
                return
        child.kill()


def _flushed(running: Running) -> bool:
    try:
        running.job.flush()
    except DatabaseUnreachable:
        return False
    return True


def _tell(pipe: "Connection[Any, Any]", message: dict[str, object]) -> None:
    with contextlib.suppress(OSError):  # it died; the next look finds out
        pipe.send_bytes(json.dumps(message).encode())


def _memory(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
