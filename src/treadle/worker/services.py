"""Services: functions that a worker calls periodically, each in a task of its own."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NewType

from treadle.db.reconnecting import DatabaseUnavailable
from treadle.text.log import log
from treadle.worker.tasks import idle, name_of

Delay = NewType("Delay", float)
"""Seconds until the next call. A type of its own, because many functions return a count, which is not a delay."""


@dataclass(frozen=True)
class Service:
    """A function that is called every `every` seconds, with 10 % jitter, so that a hundred workers that were started
    together do not call it together. If it returns a delay, the next call comes after that delay instead. Setting
    `wake` calls it earlier. While the worker sleeps it is not called, unless `asleep`."""

    function: Callable[[], Awaitable[Delay | None]]
    every: float
    wake: asyncio.Event | None = None
    asleep: bool = False

    async def run(self, unavailable: Callable[[DatabaseUnavailable], None], awake: asyncio.Event | None = None) -> None:
        """Call the function until cancelled. If the database is unavailable or the function fails, it is called again
        at the next time. `awake` is cleared while the worker sleeps."""
        delay = self.every
        while True:
            await self._wait(delay * random.uniform(0.9, 1.1))  # noqa: S311 - jitter, not a secret
            if awake is not None and not self.asleep:
                with idle():
                    await awake.wait()
            delay = self.every
            try:
                delay = await self.function() or self.every
            except DatabaseUnavailable as error:
                unavailable(error)
            except Exception:
                log.exception("%s failed; retrying", name_of(self.function))

    async def _wait(self, seconds: float) -> None:
        if self.wake is None:
            with idle():
                await asyncio.sleep(seconds)
        else:
            await within(self.wake.wait(), seconds)
            self.wake.clear()


async def within(what: Awaitable[object], seconds: float) -> bool:
    """Wait for this long at most; returns whether it finished."""
    try:
        # Not wait_for(): before Python 3.12 it loses a cancellation that arrives together with the result.
        with idle():
            async with asyncio.timeout(max(0.0, seconds)):
                await what
    except TimeoutError:
        return False
    return True
