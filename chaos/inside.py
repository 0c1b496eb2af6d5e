"""Faults inside of a worker's processes, its supervisor included, which imports none of the user's code.

A module `sitecustomize`, which Python imports when it starts, installs them in each process. The variable WISHES names
a folder: a storm writes a wish into the file that has the process id as its name, and a thread grants it.
"""

import asyncio
import json
import logging
import os
import sys
import threading
import time
import types
from collections.abc import Generator
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from treadle.worker import children, tasks

WISHES = "TREADLE_CHAOS_WISHES"
CHILDREN = "children"
"""The file that says how many seconds a child process takes to start."""
START_SECONDS, START_DELAY = 3.0, 0.2  # instead of a minute and 5 seconds, if child processes start slowly
POLL_SECONDS = 0.05
CHECK_SECONDS = 0.3  # for parts that hang, instead of half a minute

request: ContextVar[str] = ContextVar("request")
part_wishes: list[str] = []
"""What happens to parts of this process that go on next."""


class Harmed(Exception):
    """A part of a worker fails because a storm wishes it."""


class NeedsRequest(logging.Filter):
    """As applications have it for their requests. Outside of one it raises LookupError."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = request.get()
        return True


def grant(wish: str, seconds: float) -> None:
    if wish == "close stderr":
        sys.stderr.close()
    elif wish == "logging raises":
        places: list[Any] = [logging.getLogger("treadle"), *logging.getLogger().handlers]
        needs_request = NeedsRequest()
        for place in places:
            place.addFilter(needs_request)
        time.sleep(seconds)
        for place in places:
            place.removeFilter(needs_request)
    else:
        part_wishes.append(wish)


@types.coroutine
def _harmed(part: tasks.Part) -> Generator[Any, Any, None]:
    """Runs the part step by step: between two of them it may end, fail or hang, unless it only waits for something."""
    running = part()
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            waits_for = running.send(answer) if error is None else running.throw(error)
        except StopIteration:
            return
        answer, error = None, None
        try:
            answer = yield waits_for
            if part_wishes and asyncio.current_task() not in tasks._idle:
                wish = part_wishes.pop()
                if wish == "hang":
                    yield from asyncio.Future()
                error = Harmed() if wish == "fail" else asyncio.CancelledError()
        except BaseException as raised:
            error = raised


def _start(self: tasks.Tasks, part: tasks.Part) -> None:
    async def harmed() -> None:
        await _harmed(part)

    harmed.__qualname__ = tasks.name_of(part)
    _original_start(self, harmed)


def _grant_wishes(file: Path) -> None:
    while True:
        time.sleep(POLL_SECONDS)
        with suppress(FileNotFoundError, ValueError):
            wish, seconds = json.loads(file.read_text())
            file.unlink()
            grant(wish, seconds)


_original_start = tasks.Tasks.start


def install() -> None:
    tasks.Tasks.start = _start  # type: ignore[method-assign]
    tasks.CHECK_SECONDS = CHECK_SECONDS
    slow = Path(os.environ[WISHES], CHILDREN)
    if slow.exists():
        children.START_SECONDS, children.START_DELAY = START_SECONDS, START_DELAY
        if "--multiprocessing-fork" in sys.argv:
            time.sleep(float(slow.read_text()))
            return
    file = Path(os.environ[WISHES], str(os.getpid()))
    threading.Thread(target=_grant_wishes, args=(file,), daemon=True).start()
