"""Interrupts a handler that blocks its thread: an exception is raised in the middle of what it does.

It can be raised between any two steps of Python code. Three things keep it where it belongs:

- It is sent under a lock, and only while the handler runs. If it was sent, the thread waits for it when the handler has
  ended, before it does anything else.
- One that arrives then is caught, and the result of the handler counts.
- What must not be torn apart, such as taking a connection from a pool, is done within uninterrupted(): then it is
  raised after that.
"""

import ctypes
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from treadle.words.errors import INTERRUPTIONS, JobInterrupted
from treadle.words.outcome import Interrupt

# A handler that has not looked at its job so many seconds after it was told to stop is interrupted.
NOTICE_SECONDS = 0.5

_CALLS = 50

_current: ContextVar["Interruption | None"] = ContextVar("treadle_interruption", default=None)


class Interruption:
    """Of one call of a handler, on one thread."""

    def __init__(self) -> None:
        # Reentrant: if one arrives between the end of a block and the release of its lock, that stays locked.
        self._lock = threading.RLock()
        self._thread: int | None = None  # while the handler runs
        self._sent = self._ended = False
        self._held = 0
        self._pending: type[JobInterrupted] | None = None

    def call(self, handler: Callable[[], Any]) -> tuple[bool, Any]:
        """Call the handler. Returns whether it has returned, and what it returned or raised."""
        _current.set(self)
        ended: tuple[bool, Any] | None = None
        while True:
            try:
                if ended is None:
                    try:
                        self.begin()
                        ended = True, handler()
                    except BaseException as error:
                        ended = False, error
                self.end()
            except JobInterrupted as error:  # it was sent before the handler had ended
                ended = ended or (False, error)
                continue
            return ended

    def begin(self) -> None:
        with self._lock:
            if self._pending is not None:
                raise self._pending
            self._thread = threading.get_ident()

    def end(self) -> None:
        """The handler has ended: nothing is raised from now on."""
        with self._lock:
            self._thread, self._ended = None, True
        if self._sent:
            self.await_arrival()

    def interrupt(self, reason: Interrupt) -> None:
        """Raise JobInterrupted in the handler. May be called from any other thread; only the first call counts."""
        if self._sent:
            return
        with self._lock:
            if self._ended or self._sent:
                return
            self._sent = True
            if self._held or self._thread is None:
                self._pending = INTERRUPTIONS[reason]
            else:
                self.send(self._thread, INTERRUPTIONS[reason])

    def send(self, thread: int, kind: type[JobInterrupted]) -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))

    def await_arrival(self) -> None:
        """It arrives with one of the next calls, or has arrived before. (To take it back, by setting none, would leave
        a flag set in Python 3.11: the interpreter would be slower from then on, and hang in a debugger.)"""
        for _ in range(_CALLS):
            self._call()

    def _call(self) -> None:
        pass

    @contextmanager
    def holding(self) -> Iterator[None]:
        if self._thread != threading.get_ident():
            yield
            return
        with self._lock:
            self._held += 1
        try:
            yield
        finally:
            with self._lock:
                self._held -= 1
                pending = None if self._held else self._pending
            if pending is not None:
                self._pending = None
                raise pending


class SignalledInterruption(Interruption):
    """Of a handler on the main thread of a process: a signal also ends a call of the system that blocks."""

    # Ignored by default, so one that comes late does no harm.
    NUMBER = signal.SIGURG

    def __init__(self) -> None:
        super().__init__()
        self._kind: type[JobInterrupted] | None = None
        signal.signal(self.NUMBER, self._arrived)

    def send(self, thread: int, kind: type[JobInterrupted]) -> None:
        self._kind = kind
        signal.pthread_kill(thread, self.NUMBER)

    def await_arrival(self) -> None:
        self._kind = None

    def _arrived(self, *_: object) -> None:
        """On the main thread, between two steps of what it does; so it must not wait for the lock."""
        kind, self._kind = self._kind, None
        if kind is None or self._ended:
            return
        if self._held:
            self._pending = kind
        else:
            raise kind


@contextmanager
def uninterrupted() -> Iterator[None]:
    """What is done inside is not torn apart: an interruption is raised after it."""
    interruption = _current.get()
    if interruption is None:
        yield
    else:
        with interruption.holding():
            yield
