"""An event loop without waiting, and processes that run on it.

All callbacks and tasks belong to the process in whose context they were made. A process that is killed never runs
again: nothing is cancelled, no `finally` is reached, as after kill -9. One that is frozen (SIGSTOP) runs when it thaws.
"""

import asyncio
import heapq
import selectors
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any
from unittest.mock import patch

START = 1_000_000.0
running_in: ContextVar["Process | None"] = ContextVar("running_in", default=None)


class Stalled(Exception):
    """Nothing is left to do, and no timer is set."""


class Process:
    def __init__(
        self, name: str, machine: str, loop: "SimulatedLoop", crash: Callable[[], None] = lambda: None
    ) -> None:
        """`crash`: called by what runs in the process, to kill it."""
        self.name = name
        self.machine = machine
        self.crash = crash
        self.alive = True
        self.frozen = False
        self.logging_raises = False
        self._loop = loop
        self._held: list[asyncio.Handle] = []

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        context = copy_context()
        context.run(running_in.set, self)
        task = context.run(self._loop.create_task, work, name=self.name)
        task.add_done_callback(_raise)
        return task

    def kill(self) -> None:
        self.alive = False
        self._held.clear()

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self) -> None:
        self.frozen = False
        held, self._held = self._held, []
        for each in held:
            self._loop.continue_with(each)

    def may_run(self, handle: asyncio.Handle) -> bool:
        if self.alive and self.frozen:
            self._held.append(handle)
        return self.alive and not self.frozen


def _raise(task: asyncio.Task[None]) -> None:
    """What a process raises goes to the exception handler of the loop."""
    if not task.cancelled():
        task.result()


class _Step(asyncio.Handle):
    def _run(self) -> None:
        process = self._context.get(running_in)  # type: ignore[attr-defined]
        if process is None or process.may_run(self):
            super()._run()


class _Timer(asyncio.TimerHandle):
    def _run(self) -> None:
        process = self._context.get(running_in)  # type: ignore[attr-defined]
        if process is None or process.may_run(self):
            self._loop.steps += 1  # type: ignore[attr-defined]
            super()._run()


class _Jumps(selectors.SelectSelector):
    """Does not wait for anything: moves the clock."""

    now = START

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Stalled
        self.now += max(0.0, timeout)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumps = _Jumps()
        super().__init__(self._jumps)
        self.steps = 0
        """Timers and statements so far."""

    def time(self) -> float:
        return self._jumps.now

    @property
    def elapsed(self) -> float:
        return self._jumps.now - START

    def outside(self, seconds: float, callback: Callable[..., object], *arguments: Any) -> None:
        """Call back later, outside of all processes: whatever happens to them, this happens."""
        self.call_later(seconds, callback, *arguments, context=Context())

    def continue_with(self, handle: asyncio.Handle) -> None:
        self._ready.append(handle)  # type: ignore[attr-defined]

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """At once: a thread would run at any time."""
        done = self.create_future()
        done.set_result(func(*args))
        return done

    # As in the base class, with handles that ask their process.

    def _call_soon(self, callback: Any, args: Any, context: Context | None) -> asyncio.Handle:
        handle = _Step(callback, args, self, copy_context() if context is None else context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, copy_context() if context is None else context)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer


@contextmanager
def simulated_time(loop: SimulatedLoop) -> Iterator[None]:
    """All clocks of this process show the time of the loop."""
    with (
        patch.object(time, "monotonic", loop.time),
        patch.object(time, "clock_gettime", lambda clock: loop.time()),
        patch.object(time, "time_ns", lambda: round(loop.time() * 1e9)),
    ):
        yield
