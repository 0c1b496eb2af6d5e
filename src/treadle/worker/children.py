"""Child processes, seen from the worker: each runs one job at a time and can be killed alone.

They are started when they are first needed, kept for the next job, and replaced when they die. For each running job, a
thread of the worker waits for the outcome. It kills the child at the job's deadline, above its memory limit, or when
the child was asked to stop and does not.
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
from functools import cache
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from treadle.attempt.progress import ProgressReport
from treadle.jobs.load import spec_of
from treadle.jobs.workload import Workload
from treadle.text.exceptions import clean_error
from treadle.text.log import log
from treadle.words.errors import DatabaseUnreachable
from treadle.words.outcome import Ending, Interrupt, Outcome
from treadle.words.record import OutgoingEvent, OutgoingLogLine
from treadle.worker import child_program, log_format
from treadle.worker.exit_codes import died
from treadle.worker.outcomes import crashed, over_memory_limit, overdue, stopped
from treadle.worker.recycling import UNLIMITED, Limits, memory_used
from treadle.worker.running import Running

# A child that was asked to stop is killed after this time. So the handler of a cancelled job stops within two seconds.
STOP_SECONDS = 1.0
CHECK_SECONDS = 0.1
# The time to start the process and to import the application. After a process that needed more, the next one gets twice
# as long, up to ten times.
START_SECONDS, MOST_TIMES = 60.0, 10
# A job whose process did not start in time is tried again after this time.
START_DELAY = 5.0


class Child:
    def __init__(self, limits: Limits) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=child_program.main, args=(theirs,), name="treadle-child")
        self.process.start()
        theirs.close()
        self.limits = limits
        self.jobs = 0

    @property
    def pid(self) -> int:
        return self.process.pid or 0

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


class Children:
    def __init__(self, limit: int, workload: Workload, new_limits: Callable[[], Limits] = lambda: UNLIMITED) -> None:
        """`new_limits` says when a child is replaced."""
        self._new_limits = new_limits
        self._spec = cache(lambda: spec_of(workload))  # which looks at all modules
        self._threads = ThreadPoolExecutor(limit, thread_name_prefix="treadle-child")
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._busy: set[Child] = set()
        self._closed = False
        self._times = 1
        """How many times START_SECONDS the next process may take to start."""

    async def run(self, running: Running, on_start: Callable[[int], None]) -> Outcome:
        stop = threading.Event()
        running.stop_child = stop.set
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, running, stop, on_start)

    def kill(self) -> None:
        with self._lock:
            self._closed = True
            children = [*self._idle, *self._busy]
            self._idle.clear()
        for child in children:
            child.process.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(self, running: Running, stop: threading.Event, on_start: Callable[[int], None]) -> Outcome:
        started = math.inf

        def note_start(process: int) -> None:
            nonlocal started
            started = time.monotonic()
            on_start(process)

        while True:
            if running.attempt.interrupted_by is not None:  # while it waited for a child
                return stopped(running.function, running.attempt)
            try:
                child = self._take()
            except OSError as error:  # out of processes or memory: not the job's fault
                return Outcome(Ending.RELEASED, delay=1.0, error=clean_error(error))
            usable = False
            try:
                outcome, usable = self._supervise(child, running, stop, note_start)
                if outcome is None and child.jobs and started == math.inf:
                    continue  # it died between two jobs
                return outcome or self._outcome_of_death(child, running, time.monotonic() - started)
            finally:
                self._give_back(child, keep=usable)

    def _supervise(
        self, child: Child, running: Running, stop: threading.Event, on_start: Callable[[int], None]
    ) -> tuple[Outcome | None, bool]:
        """The outcome (None if the child died), and whether the child can be used again: it sent the outcome itself."""
        policy, sent = running.policy, time.monotonic()
        started: float | None = None  # timeout and deadline count from the start of the handler, not of the process
        asked_to_stop: float | None = None
        order = {
            "app": self._spec(),
            "module": running.function.function.__module__,
            "name": running.function.function.__qualname__,
            "claim": [str(running.claim.id), *running.claim[1:]],
            "worker_id": running.attempt.environment.worker_id,
            "url": running.function.backend.own.url,
            "log_level": logging.getLogger().level,
            "log": log_format.options,
        }
        try:
            child.pipe.send_bytes(json.dumps(order).encode())
        except OSError:
            return None, False
        while True:
            if child.pipe in wait([child.pipe, child.process.sentinel], CHECK_SECONDS):
                try:
                    message = json.loads(child.pipe.recv_bytes())
                except (EOFError, OSError):
                    return None, False
                if "outcome" in message:
                    outcome = Outcome(Ending(message["outcome"][0]), *message["outcome"][1:])
                    if outcome.ending is Ending.RETRY and outcome.delay is None:  # it has not found the function
                        outcome = outcome._replace(delay=policy.retry.delay(running.claim.attempts))
                    return outcome, True
                if "records" in message:
                    progress, events, log_lines = message["records"]
                    running.attempt.receive(
                        None if progress is None else ProgressReport(*progress),
                        [OutgoingEvent(*each) for each in events],
                        [OutgoingLogLine(*each) for each in log_lines],
                    )
                elif "flush" in message:
                    _send(child.pipe, {"flushed": _flush(running)})
                else:
                    started = time.monotonic()
                    self._times = 1
                    on_start(child.pid)
            elif not child.process.is_alive() and not child.pipe.poll():
                return None, False
            now = time.monotonic()
            if started is None and now - sent > START_SECONDS * self._times:
                return self._started_too_slowly(running, now - sent), False
            if policy.timeout is not None and started is not None and now - started > policy.timeout:
                running.interrupt(Interrupt.TIMEOUT)
            if stop.is_set() and asked_to_stop is None:
                asked_to_stop = now
                _send(child.pipe, {"interrupt": running.attempt.interrupted_by})
            if policy.memory_limit is not None and (used := memory_used(child.pid)) > policy.memory_limit:
                return over_memory_limit(running.function, running.attempt, used), False
            if policy.deadline is not None and started is not None and now - started > policy.deadline:
                return overdue(running.function, running.attempt), False
            if (
                asked_to_stop is not None
                and now - asked_to_stop > STOP_SECONDS
                and running.attempt.interrupted_by is not Interrupt.TIMEOUT
            ):
                return stopped(running.function, running.attempt), False

    def _started_too_slowly(self, running: Running, seconds: float) -> Outcome:
        """Not the job's fault: it has not begun, and uses no attempt."""
        message = "a child process took more than %.0f seconds to start and was replaced; job %s is tried again soon"
        log.warning(message, seconds, running.claim.id)
        self._times = min(2 * self._times, MOST_TIMES)
        return Outcome(Ending.RELEASED, delay=START_DELAY)

    def _outcome_of_death(self, child: Child, running: Running, seconds: float) -> Outcome:
        child.process.join()
        if running.policy.deadline is not None and seconds > running.policy.deadline:
            return overdue(running.function, running.attempt)
        if running.attempt.interrupted_by is not None:
            return stopped(running.function, running.attempt)
        return crashed(running.attempt, f"its process {died(child.process.exitcode)}")

    def _take(self) -> Child:
        with self._lock:
            while self._idle:
                child = self._idle.pop()
                if child.process.is_alive():
                    self._busy.add(child)
                    return child
                child.kill()
        child = Child(self._new_limits())
        with self._lock:
            self._busy.add(child)
            if self._closed:
                child.process.kill()
        return child

    def _give_back(self, child: Child, keep: bool) -> None:
        child.jobs += 1
        keep = keep and child.limits.reached(child.jobs, child.pid) is None
        with self._lock:
            self._busy.discard(child)
            if keep and not self._closed:
                self._idle.append(child)
                return
        child.kill()


def _flush(running: Running) -> bool:
    try:
        running.attempt.flush()
    except DatabaseUnreachable:
        return False
    return True


def _send(pipe: "Connection[Any, Any]", message: dict[str, object]) -> None:
    with contextlib.suppress(OSError):  # the child has died: the caller finds out at its next read
        pipe.send_bytes(json.dumps(message).encode())
