"""How much maintenance does at once: less if the database takes too long for it, and more again when it is quick."""

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from treadle.db.reconnecting import StatementCancelled, Unanswered

Result = TypeVar("Result")

QUICK_SECONDS = 1.0


class Steps:
    """It remembers what was too much: each try costs all the time that a statement may take."""

    def __init__(self, most: int, least: int) -> None:
        self.size = self.most = most
        self._least = least

    async def run(self, step: Callable[[int], Awaitable[Result]]) -> Result:
        while True:
            began = time.monotonic()
            try:
                done = await step(self.size)
            except (StatementCancelled, Unanswered):
                if self.size == self._least:
                    raise
                self.size = max(self._least, self.size // 4)
                continue
            if time.monotonic() - began < QUICK_SECONDS:
                self.size = min(self.most, self.size * 2)
            return done
