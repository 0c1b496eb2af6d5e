"""Handlers that set a tracer or a profiler (sys.settrace, sys.setprofile): it stays theirs.

It would be called for everything else that their thread does: on the event loop, for all tasks of the worker between
two steps of the handler, and an exception of it would interrupt their statements.
"""

import sys
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

Result = TypeVar("Result")


def untraced(call: Callable[..., Result], *arguments: Any) -> Result:
    """Call a handler, or take one step of it. What it traces ends with that."""
    tracer, profiler = sys.gettrace(), sys.getprofile()
    try:
        return call(*arguments)
    finally:
        # No function of Python here: it would be traced.
        try:
            if sys.gettrace() is not tracer:
                sys.settrace(tracer)
            if sys.getprofile() is not profiler:
                sys.setprofile(profiler)
        except BaseException:  # a profiler is called for these, too: one that raises ends by that
            sys.settrace(tracer)
            sys.setprofile(profiler)


class Untraced(Generator[Any, Any, Result], Awaitable[Result]):
    """Awaits a handler, step by step. It takes 1.4 µs for a handler of one step."""

    __slots__ = ("_steps",)

    def __init__(self, handler: Awaitable[Result]) -> None:
        self._steps: Any = handler.__await__()

    def __await__(self) -> Generator[Any, Any, Result]:
        return self

    # Not that of Generator, whose frame would be in the tracebacks of handlers.
    def __next__(self) -> Any:
        return untraced(self._steps.send, None)

    def send(self, value: Any) -> Any:
        return untraced(self._steps.send, value)

    def throw(self, *error: Any) -> Any:
        return untraced(self._steps.throw, *error)
