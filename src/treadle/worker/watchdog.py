"""Notes in the job slots that the event loop of a worker runs. A thread notices if it does not, and writes there where
it is blocked.

The thread cannot run while another thread holds the GIL; then the supervisor asks for a dump (pulse.py).
"""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from uuid import UUID

from treadle.text.masking import redacted
from treadle.words.clock import now
from treadle.worker import stacks
from treadle.worker.job_slots import EventLoop, JobSlots
from treadle.worker.pulse import Silence

BEAT_SECONDS = 0.5
WATCH_SECONDS = 0.4
# So that the stack is there before the supervisor asks for a dump (pulse.py).
BLOCKED_SECONDS = 0.8


class Watchdog:
    def __init__(self, slots: JobSlots, job_of: Callable[["asyncio.Task[object]"], tuple[UUID, str] | None]) -> None:
        """Watch the event loop of this thread. `job_of` returns the id and the type of the job to which a task
        belongs."""
        self._slots = slots
        self._job_of = job_of
        self._stopped = threading.Event()
        where = EventLoop(threading.get_ident(), threading.get_native_id(), os.getpid())
        slots.event_loop = where._replace(dump_signal=slots.event_loop.dump_signal)
        slots.pulse = now()
        arguments = (asyncio.get_running_loop(), where.thread)
        self._thread = threading.Thread(target=self._watch, args=arguments, name="treadle-watchdog", daemon=True)
        self._thread.start()

    async def beat(self) -> None:
        self._slots.pulse = now()

    def stop(self) -> None:
        """The worker has ended, although its event loop may go on with something else."""
        self._slots.pulse = 0.0
        self._stopped.set()
        self._thread.join(1)

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        silence, written = Silence(2 * WATCH_SECONDS), False
        while not self._stopped.wait(WATCH_SECONDS):
            blocked = silence.look(self._slots.pulse, now()) >= BLOCKED_SECONDS
            if blocked and not written:
                task = asyncio.current_task(loop)
                job = None if task is None else self._job_of(task)
                self._slots.stack = redacted(stacks.write(sys._current_frames(), thread, job))
            written = blocked
