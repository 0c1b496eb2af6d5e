"""Claims jobs while there is room, and starts them: no cooldown, a freed slot is refilled at once.

A few jobs are held ready beyond those that run, as many as end in about a seventh of a second: none for long
jobs, which another worker could begin meanwhile, and hundreds for quick ones, so that claims come in large batches.

When nothing is left the intake goes to rest: until a notification, until the next job is due, or until it is time to
look without being told.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from treadle.db.queries import worker as work
from treadle.db.reconnecting import DatabaseAway, Line, pause
from treadle.words.claim import Claim

if TYPE_CHECKING:
    from treadle.worker.worker import Worker

BATCH = 2000
AHEAD_SECONDS = 0.15
MOST_AHEAD = 4000
# After so many that were begun, whatever else waits for the event loop gets its turn.
TURN = 100
# Who enqueues within 20 ms after the bell was rung does not ring again, and may commit a moment after it was answered.
LOOK_AGAIN = (0.1, 0.025)


class Intake:
    def __init__(self, worker: "Worker", line: Line, types: Sequence[str], limit: int) -> None:
        self._worker = worker
        self._line = line
        self.types = list(types)
        self._limit = limit
        self.ready: deque[Claim] = deque()
        self.running = 0
        self.idle = False
        self._filling = False
        self._stopped = False
        self.claimed_at = 0.0
        self._ended = 0
        self._speed = 0.0  # jobs per second
        self._measured = time.monotonic()
        self._enough = -1  # with no more ready than these, it is time to claim; less than none: nobody waits for that
        self._room = asyncio.Event()
        self.bell = asyncio.Event()

    # Called by the worker

    def end(self) -> None:
        """A job ended: its slot is free."""
        self.running -= 1
        self._ended += 1
        if self.ready:
            self.fill()
        if len(self.ready) <= self._enough and self._wanted() > 0:
            self._room.set()

    def fill(self) -> None:
        if self._filling:  # a job that was begun here has ended at once
            return
        self._filling, begun = True, 0
        try:
            while self.ready and self.running < self._limit:
                if begun == TURN:
                    asyncio.get_running_loop().call_soon(self.fill)
                    return
                begun += 1
                self.running += 1
                if not self._worker.start_job(self.ready.popleft(), self):
                    self.running -= 1
        finally:
            self._filling = False

    def take(self, claims: Sequence[Claim]) -> None:
        """These are held by this worker."""
        self.idle = False
        if self._worker.may_start():
            self._worker.claimed(claims)
            self.ready.extend(claims)
            self.fill()
        else:
            # They came while the worker stops, or while it cannot be sure that they are still its own.
            self._worker.release(claims)

    def give_up(self) -> list[Claim]:
        """What was claimed and not started."""
        claims = list(self.ready)
        self.ready.clear()
        return claims

    def stop(self) -> None:
        """Claim no more. A claim that is under way is waited for, and what it brings is given up."""
        self._stopped = True
        self.bell.set()
        self._room.set()

    def known(self) -> set[UUID]:
        return {claim.id for claim in self.ready}

    async def run(self) -> None:
        chosen = self._worker.settings
        failures = barren = 0
        look = False  # only look whether there is something: nobody said so
        again: list[float] = []  # when to look again after the bell
        while not self._stopped:
            if not self._worker.may_start():
                await asyncio.sleep(0.05)
                continue
            wanted = self._wanted()
            if wanted < 1:
                self._room.clear()
                self._enough = self._ahead() // 2
                await self._room.wait()
                self._enough = -1
                continue
            self.bell.clear()
            try:
                claims = [] if look else await self._claim(wanted)
                if claims and len(claims) == wanted:
                    failures = barren = 0
                    continue
                quiet = chosen.drain and not self._worker.busy()
                seconds = await self._line.run(work.rest(self.types, chosen.queues, chosen.drain))
                self._worker.away(None)
            except DatabaseAway as error:
                if not look:
                    # The claim may have been carried out: somebody has to look what this worker holds.
                    self._worker.unknown()
                self._worker.away(error)
                failures += 1
                await asyncio.sleep(pause(failures))
                continue
            failures = 0
            if seconds is None or seconds > 0:
                barren = 0
                self._worker.nothing_left(self, quiet)
                every = again.pop() if again else self._worker.look_every()
                due = seconds is not None and seconds < every
                rung = await self._rest(seconds if due and seconds is not None else every)
                look = not rung and not due
                if rung:
                    again = list(LOOK_AGAIN)
            elif claims or look:
                look = False
            else:
                # There is something, but others hold it: do not turn in circles.
                barren += 1
                await self._rest(min(0.002 * 2 ** min(barren, 8), self._worker.look_every()))

    async def _claim(self, wanted: int) -> list[Claim]:
        self.idle = False  # while it is under way: with drain, another intake must not take this one for done
        worker = self._worker
        claims = await self._line.run(work.claim(worker.worker_id, self.types, wanted, worker.settings.queues))
        if claims:
            self.claimed_at = time.monotonic()
            self.take(claims)
        return claims

    async def _rest(self, seconds: float) -> bool:
        """Whether the bell was rung before that."""
        if self._stopped:
            return True
        over = False

        def end() -> None:
            nonlocal over
            over = not self.bell.is_set()
            self.bell.set()

        timer = asyncio.get_running_loop().call_later(seconds, end)
        try:
            await self.bell.wait()
        finally:
            timer.cancel()
        return not over

    def _wanted(self) -> int:
        """How many to claim now; 0 while enough are ready."""
        ahead = self._ahead()
        room = self._limit + ahead - self.running - len(self.ready)
        return min(room, BATCH) if len(self.ready) <= ahead // 2 else 0

    def _ahead(self) -> int:
        asked = self._worker.settings.prefetch
        if asked is not None:
            return asked
        now = time.monotonic()
        span = now - self._measured
        if span >= 0.02:
            # The newest hundredths of a second count most, so that it follows a change at once.
            speed = self._ended / span
            self._speed = max(speed, self._speed + (speed - self._speed) * min(1.0, span * 20))
            self._ended = 0
            self._measured = now
        return min(int(self._speed * AHEAD_SECONDS), MOST_AHEAD)
