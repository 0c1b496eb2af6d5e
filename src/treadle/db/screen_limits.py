"""Shorter time limits for people who wait in front of a screen, on the same pools that the application uses.

    with on_screen():
        await database.aread(query)  # fails within a few seconds instead of half a minute

It holds for everything that is called within the block, and for the tasks and threads that are started there. What
workers and applications do at the same time keeps its own limits.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class TimeLimits(NamedTuple):
    """In seconds."""

    connection: float
    """How long to wait for a connection, whether the server is away or all connections are in use."""
    answer: float
    """How long a read may take."""
    lock: float
    """How long a change waits for a lock. It is not made if it does not get the lock in time."""
    read_lock: float = 1.0
    """How long a read waits for a lock. That is less than `statement`, so that whoever waits learns the reason."""

    @property
    def statement(self) -> float:
        """Less than `answer`, so that the server's own error, which says more, arrives first."""
        return self.answer - 0.5


ON_SCREEN = TimeLimits(connection=2.0, answer=3.0, lock=2.0)

_current: ContextVar[TimeLimits | None] = ContextVar("treadle_time_limits", default=None)


def current() -> TimeLimits | None:
    return _current.get()


@contextmanager
def limited_to(limits: TimeLimits) -> Iterator[None]:
    token = _current.set(limits)
    try:
        yield
    finally:
        _current.reset(token)


def on_screen(read_lock: float | None = None) -> AbstractContextManager[None]:
    """The time limits of somebody in front of a screen, who may know that a table is locked."""
    return limited_to(ON_SCREEN if read_lock is None else ON_SCREEN._replace(read_lock=read_lock))


def shortened(seconds: float) -> float:
    """The time limit of a read, which is `seconds` unless a limit is shorter."""
    limits = current()
    return seconds if limits is None else min(seconds, limits.statement)
