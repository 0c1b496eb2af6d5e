"""Runs scripts: generators that yield what is to be done and do no I/O themselves, driven sync or async.

A script yields a Query, or another Request that its caller knows how to carry out, and is sent the reply. What it
returns is the result of drive(). With iterate() a script may also yield items, which are anything but a Query or a
Request; they are passed on to the caller. A failed request is raised to the caller, not into the script, and the script
is always closed.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import closing, suppress
from typing import Any, NamedTuple, TypeVar

from treadle.db.query import Query

Item = TypeVar("Item")
Result = TypeVar("Result")


class Request:
    """Base of what a script can ask for besides queries."""

    __slots__ = ()


class _End(NamedTuple):
    result: Any


def drive(script: Generator[Any, Any, Result], run: Callable[[Any], Any]) -> Result:
    """Run a script to its end. `run` carries out a request and returns the reply."""
    with closing(script):
        step = _advance(script, None)
        while not isinstance(step, _End):
            step = _advance(script, run(step))
    result: Result = step.result
    return result


async def adrive(
    script: Generator[Any, Any, Result], run: Callable[[Any], Awaitable[Any]], *, on_thread: bool = False
) -> Result:
    """With `on_thread` the script itself may block, for example to read a file: it is advanced on a thread."""
    reply = None
    try:
        while True:
            step = await asyncio.to_thread(_advance, script, reply) if on_thread else _advance(script, reply)
            if isinstance(step, _End):
                result: Result = step.result
                return result
            reply = await run(step)
    finally:
        # Cancelled while a thread advances the script, it cannot be closed; it is garbage once the thread is done.
        with suppress(ValueError):
            script.close()


def iterate(
    script: Generator[Query[Any] | Request | Item, Any, None], run: Callable[[Any], Any]
) -> Generator[Item, None, None]:
    """Run a script, yielding its items."""
    with closing(script):
        step = _advance(script, None)
        while not isinstance(step, _End):
            if isinstance(step, Query | Request):
                reply = run(step)
            else:
                yield step
                reply = None
            step = _advance(script, reply)


async def aiterate(
    script: Generator[Query[Any] | Request | Item, Any, None], run: Callable[[Any], Awaitable[Any]]
) -> AsyncGenerator[Item, None]:
    with closing(script):
        step = _advance(script, None)
        while not isinstance(step, _End):
            if isinstance(step, Query | Request):
                reply = await run(step)
            else:
                yield step
                reply = None
            step = _advance(script, reply)


def _advance(script: Generator[Any, Any, Any], reply: Any) -> Any:
    # The end is returned, because StopIteration cannot be raised out of a thread or a coroutine.
    try:
        return script.send(reply)
    except StopIteration as end:
        return _End(end.value)
