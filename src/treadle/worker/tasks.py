"""Tasks that must not end before they are told to."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias

from treadle.words.own_log import log

RESTART_SECONDS = 1.0

Part: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class Tasks:
    """The parts of a worker or supervisor that run beside each other. One that fails, or that a handler has cancelled
    together with everything on its event loop, is started again: nothing works without it. One that returns is done.
    """

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._stopped = False

    def start(self, part: Part) -> None:
        if self._stopped:
            return
        task = asyncio.create_task(part())
        self._running.add(task)
        task.add_done_callback(partial(self._ended, part))

    async def wait(self, seconds: float) -> None:
        """Wait for this long at most until all of them are done."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    async def cancel(self) -> None:
        self._stopped = True
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _ended(self, part: Part, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if self._stopped or not (task.cancelled() or task.exception()):
            return
        error = None if task.cancelled() else task.exception()
        log.error("%s ended unexpectedly; it is started again", name_of(part), exc_info=error)
        asyncio.get_running_loop().call_later(RESTART_SECONDS, self.start, part)


def name_of(function: Callable[..., object]) -> str:
    """For messages."""
    function = function.func if isinstance(function, partial) else function
    return str(getattr(function, "__qualname__", function))
