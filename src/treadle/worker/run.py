"""A worker as the whole of a program: until a signal, or until nothing is left to do."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Unpack

from treadle.app import Treadle
from treadle.worker.board import Board
from treadle.worker.options import WorkerOptions
from treadle.worker.worker import Worker

# A thread does not stop: the process has to end without waiting for it.
STUCK = 75


def run_worker(app: Treadle, **options: Unpack[WorkerOptions]) -> None:
    """Work until SIGTERM or Ctrl-C; a second one interrupts what runs."""
    if asyncio.run(work(app, None, **options)):
        end_now(0)


def end_now(code: int) -> None:
    """End without waiting for threads that do not."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def work(
    app: Treadle,
    board: Board | None,
    ready: Callable[[Worker], object] = lambda _: None,
    **options: Unpack[WorkerOptions],
) -> bool:
    """Returns whether a thread is left that does not stop."""
    worker = Worker(app, board=board, **options)
    signals: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signals.put_nowait, number)
    await worker.start()
    ready(worker)
    # Past its deadline, a thread can only be got rid of with its process; whoever looks after us starts another.
    ends = [signals.get(), worker.drained(), worker.broken.wait()]
    if board is not None:
        ends.append(worker.bench.overdue.wait())
    waiting = [asyncio.ensure_future(each) for each in ends]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    stopping = asyncio.ensure_future(worker.stop())
    again = asyncio.ensure_future(signals.get())
    await asyncio.wait([stopping, again], return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        worker.hurry()
        await stopping
    for each in (*waiting, again):
        each.cancel()
    await app.aclose()
    return worker.stuck
