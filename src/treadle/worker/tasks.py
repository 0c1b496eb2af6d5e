"""Tasks that must not end before they are told to, and must not hang."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

from treadle.text.log import log

RESTART_SECONDS = 1.0
# How often to look at the parts. One that waits for the same thing at so many looks hangs: no statement takes so long,
# nor does the wait for a connection that others use while the database does not answer.
CHECK_SECONDS, CHECKS = 30.0, 10

Part: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

_idle: set[asyncio.Task[Any]] = set()


@contextmanager
def idle() -> Iterator[None]:
    """The part that calls this waits for something to do, or for some time, however long: it does not hang."""
    task = asyncio.current_task()
    if task is None or task in _idle:
        yield
        return
    _idle.add(task)
    try:
        yield
    finally:
        _idle.discard(task)


class _Running:
    """What the last looks at a part have shown."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.awaited: object = None
        self.checks = 0
        self.cancelled = False

    def hangs(self, task: "asyncio.Task[None]") -> bool:
        """Whether it has waited for the same thing at the last looks; once it is cancelled, whether it goes on."""
        former, self.awaited = self.awaited, getattr(task, "_fut_waiter", None)
        is_same = self.awaited is not None and self.awaited is former and task not in _idle
        self.checks = self.checks + 1 if is_same or self.cancelled else 0
        return self.checks == CHECKS


class Tasks:
    """The parts of a worker or supervisor that run beside each other. One that fails, that hangs, or that a handler has
    cancelled together with everything on its event loop, is started again: nothing works without it. One that returns
    is done.
    """

    def __init__(self, cannot_end: Callable[[], None] = lambda: None) -> None:
        """`cannot_end` is called when a part hangs and cannot even be cancelled."""
        self._running: dict[asyncio.Task[None], _Running] = {}
        self._cannot_end = cannot_end
        self._stopped = False
        # Not a task, which a handler could cancel.
        self._timer: asyncio.TimerHandle | None = None

    def start(self, part: Part) -> None:
        if self._stopped:
            return
        task = asyncio.create_task(part())
        self._running[task] = _Running(part)
        task.add_done_callback(partial(self._ended, part))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._check)

    async def wait(self, seconds: float) -> None:
        """Wait for this long at most until all of them are done."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    async def cancel(self, seconds: float) -> None:
        """Cancel them, and wait for this long at most until they have ended."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._running:
            task.cancel()
        await self.wait(seconds)

    def _ended(self, part: Part, task: "asyncio.Task[None]") -> None:
        del self._running[task]
        error = None if task.cancelled() else task.exception()
        if self._stopped or not (task.cancelled() or error):
            return
        log.error("%s ended unexpectedly; it is started again", name_of(part), exc_info=error)
        asyncio.get_running_loop().call_later(RESTART_SECONDS, self.start, part)

    def _check(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._check)
        for task, running in list(self._running.items()):
            if not running.hangs(task):
                continue
            if running.cancelled:
                log.error("%s hangs, and cannot be started again", name_of(running.part))
                self._cannot_end()
            else:
                log.error("%s has made no progress for %g seconds", name_of(running.part), CHECK_SECONDS * CHECKS)
                running.cancelled, running.checks = True, 0
                task.cancel()


def name_of(function: Callable[..., object]) -> str:
    """For messages."""
    function = function.func if isinstance(function, partial) else function
    return str(getattr(function, "__qualname__", function))
