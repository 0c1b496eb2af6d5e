"""Suspects that a worker has claimed and that wait for a free child process: jobs that ran in a process that died.

When a process with many jobs dies, all of them are suspects, and the first worker to look claims all of them. It keeps
them in their order until a child process is free. From time to time it asks whether another worker has a free one: then
it gives back those that it cannot start, to their old place, and claims nothing for a moment, in which others can claim
them.
"""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from treadle.words.job import Claim

OFFER_EVERY = 5.0
# How long the worker claims nothing after an offer. A notification takes a few milliseconds.
OFFER_SECONDS = 0.2


class Suspects:
    def __init__(
        self,
        release: Callable[[Sequence[Claim], float | None], None],
        is_wanted: Callable[[Sequence[Claim]], Awaitable[bool]],
    ) -> None:
        """`is_wanted` says whether another worker has a free child process for them."""
        self.waiting: deque[Claim] = deque()
        """Claimed and not started. They take no room from other jobs."""
        self._release = release
        self._is_wanted = is_wanted
        self._asked_at = self._offered_at = -OFFER_EVERY

    async def offer(self) -> None:
        """Give back those that wait if another worker can start them, unless it was asked lately."""
        now = time.monotonic()
        if self.waiting and now - self._asked_at >= OFFER_EVERY:
            self._asked_at = now
            if await self._is_wanted(list(self.waiting)):
                self._offered_at = time.monotonic()
                claims = list(self.waiting)
                self.waiting.clear()
                self._release(claims, None)

    def pause(self) -> float:
        """For how many seconds the worker claims nothing, so that others can claim those that it has offered."""
        return max(0.0, self._offered_at + OFFER_SECONDS - time.monotonic())
