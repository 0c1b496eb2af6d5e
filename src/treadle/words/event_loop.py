"""Whether this code runs on an event loop, which must not be blocked."""

import asyncio
from contextvars import ContextVar
from typing import Any

from treadle.words.errors import InvalidArgument

calling_thread: ContextVar[Any] = ContextVar("treadle_calling_thread", default=None)
"""In a drain of treadle.testing: the executor of the thread on which everything sync runs."""


def on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def refuse_to_wait(instead: str) -> None:
    """Raise InvalidArgument on an event loop, with what to write instead: what is waited for may need that loop."""
    if on_event_loop():
        raise InvalidArgument(f"this would block the event loop while it waits: use {instead}")
