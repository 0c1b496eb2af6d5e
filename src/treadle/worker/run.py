"""Runs a worker as a program: until a signal, or until no job is left to run."""

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, Unpack

from treadle.db.embedded import leave_all
from treadle.db.reconnecting import DatabaseUnavailable, reconnect_delay
from treadle.jobs.workload import Workload
from treadle.words.errors import DatabaseUnreachable
from treadle.worker.exit_codes import End
from treadle.worker.job_slots import JobSlots
from treadle.worker.log import forget_events, log_events
from treadle.worker.options import WorkerOptions
from treadle.worker.recycling import Recycling
from treadle.worker.worker import Worker

Result = TypeVar("Result")

# How long threads get to end by themselves after the worker has stopped.
THREADS_SECONDS = 0.5


def run_worker(workload: Workload, **options: Unpack[WorkerOptions]) -> None:
    """Work until SIGTERM or Ctrl-C; a second signal interrupts the jobs that still run."""
    ended = run_without_waiting(work(workload, None, **options))
    if ended is End.STOPPED and not _other_threads_end():
        # Threads of handlers that do not stop: the program ends without waiting for them.
        end_now(0)


def run_without_waiting(what: Coroutine[Any, Any, Result]) -> Result:
    """Like asyncio.run, but does not wait for the threads of asyncio.to_thread, which may never end."""
    loop = asyncio.new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(what)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=1))
        loop.run_until_complete(loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        loop.close()


def _other_threads_end() -> bool:
    """Whether all other threads end. The idle threads of asyncio.to_thread take a moment."""
    end = time.monotonic() + THREADS_SECONDS
    others = [each for each in threading.enumerate() if not each.daemon and each is not threading.main_thread()]
    for thread in others:
        thread.join(max(0.0, end - time.monotonic()))
    return not any(thread.is_alive() for thread in others)


def end_now(code: int) -> None:
    """End without waiting for threads."""
    try:
        leave_all()  # as the embedded server does at a normal exit
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # a handler may have closed them
        os._exit(code)


async def work(
    workload: Workload,
    slots: JobSlots | None,
    ready: Callable[[Worker], object] = lambda _: None,
    retiring: Callable[[str], object] = lambda _: None,
    recycling: Recycling | None = None,
    **options: Unpack[WorkerOptions],
) -> End:
    """`ready` is called when the worker has started. `retiring` is called, with the reason, when it claims no more jobs
    because of `recycling`, and lets those that run finish."""
    worker = Worker(workload, slots=slots, recycling=recycling, **options)
    signals: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, signals.put_nowait, number)
    try:
        if not await _unless_signalled(_reach_database(workload, worker), signals):
            return End.STOPPED
        await worker.start()
        ready(worker)
        ended = await _end(worker, signals, stuck_ends=slots is not None)
        if ended is End.RECYCLED:
            retiring(worker.recycling.reason)
            await _unless_signalled(worker.finish(), signals)
        stopping, again = asyncio.ensure_future(worker.stop()), asyncio.ensure_future(signals.get())
        await asyncio.wait([stopping, again], return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            worker.hurry()
            await stopping
        again.cancel()
        await workload.close()
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
    return ended


async def _reach_database(workload: Workload, worker: Worker) -> None:
    """Wait for the database, which may start later than this program."""
    log_events(workload.listeners)
    failures = 0
    while True:
        try:
            await asyncio.to_thread(lambda: workload.database.url)
        except DatabaseUnreachable as error:
            worker.unavailable(DatabaseUnavailable(str(error)))
            failures += 1
            await asyncio.sleep(reconnect_delay(failures))
        else:
            worker.unavailable(None)
            forget_events(workload.listeners)
            return


async def _unless_signalled(what: Coroutine[Any, Any, None], signals: "asyncio.Queue[int]") -> bool:
    """Wait for it, or for a signal, which cancels it. Returns whether it finished."""
    work, signalled = asyncio.ensure_future(what), asyncio.ensure_future(signals.get())
    await asyncio.wait([work, signalled], return_when=asyncio.FIRST_COMPLETED)
    signalled.cancel()
    if not work.done():
        work.cancel()
        await asyncio.wait([work])
        return False
    work.result()
    return True


async def _end(worker: Worker, signals: "asyncio.Queue[int]", stuck_ends: bool) -> End:
    """Wait for a reason to stop."""
    reasons = {
        asyncio.ensure_future(signals.get()): End.STOPPED,
        asyncio.ensure_future(worker.drained()): End.DRAINED,
        asyncio.ensure_future(worker.recycling.wait()): End.RECYCLED,
    }
    if stuck_ends:
        # The supervisor starts another process.
        reasons[asyncio.ensure_future(worker.running.overdue.wait())] = End.STUCK
    done, waiting = await asyncio.wait(reasons, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()
    return reasons[done.pop()]
