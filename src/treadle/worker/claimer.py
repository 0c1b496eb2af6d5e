"""Claims jobs while there is room, and starts them: a slot that becomes free is refilled at once.

When nothing is left the claimer waits: for a notification, until the next job is due, or for the next poll. What it
does next is decided in decision.py.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

from treadle.db.reconnecting import DatabaseUnavailable, reconnect_delay
from treadle.words.job import Claim
from treadle.worker import decision
from treadle.worker.decision import Action, Check, GiveBack, State, Told, Until, Wait, decide
from treadle.worker.job_source import JobSource
from treadle.worker.prefetch import Prefetch
from treadle.worker.suspects import Suspects
from treadle.worker.tasks import idle

BATCH = 2000
# After starting this many jobs, other tasks of the event loop get a turn.
TURN = 100
# If no job could be started for this long, those prefetched are given back: the jobs that run are longer than the
# ones before, and other workers may have room.
STALLED_SECONDS = 1.0
# The delay before a job is retried that still runs here, in a thread that does not stop.
STILL_RUNNING_SECONDS = 1.0
# An enqueue just after a notification sends none, and its commit may become visible a while after the claimer has
# checked: on a slow disk, or with synchronous replication. So somebody checks again this long after the notification,
# unless there is another one: another worker, or the same one if there is no other.
RECHECK_SECONDS = (0.05, 0.2, 0.5)


class Host(Protocol):
    """The worker of a claimer."""

    awake: asyncio.Event
    """Cleared while the worker sleeps. A claimer must not claim then: the lease is long, and its jobs would be
    recovered late."""

    @property
    def free_children(self) -> int:
        """How many more jobs can begin in child processes."""

    def is_suspect(self, claim: Claim) -> bool:
        """Whether the job has to run in a child process because it may have killed its process before."""

    def may_start(self) -> bool: ...

    def start_job(self, claim: Claim, finished: Callable[[], None]) -> bool:
        """Run a job, and call back when it finishes. Returns False if the job still runs here."""

    def release(self, claims: Sequence[Claim], delay: float | None = None) -> None:
        """Give back jobs that were not started."""

    def poll(self) -> float:
        """How long to wait without a notification."""

    def busy(self) -> bool:
        """Whether a job is claimed here whose outcome is not written yet."""

    def full(self, claimed: int) -> None:
        """A claimer was to look for jobs, and has no room for more than those that it has just claimed."""

    def found_nothing(self, claimer: "Claimer", quiet: bool) -> None:
        """When draining: no job is due, not even one that was committed late. `quiet`: the worker was not busy before
        the claimer checked."""


class Claimer:
    """`step` does one thing, or says how to wait before the next one; `run` calls it and waits in between."""

    def __init__(
        self,
        host: Host,
        source: JobSource,
        types: Sequence[str],
        limit: int,
        *,
        in_children: bool = False,
        prefetch: int | None = None,
    ) -> None:
        """`in_children`: all jobs of this claimer run in child processes. Suspects do in any case. Such a job is
        started only if there is a free child process."""
        self.types = list(types)
        self.in_children = in_children
        self._host = host
        self._source = source
        self._limit = limit
        self._prefetch = Prefetch(prefetch)
        self.ready: deque[Claim] = deque()
        """Claimed and not yet started."""
        self.suspects = Suspects(host.release, source.is_child_free_elsewhere)
        self.running = 0
        self.claimed_at = 0.0
        self.idle = False
        """When draining: whether it found nothing, and has claimed nothing since."""
        self._state = State()
        self._told = Told.NOTHING
        self._wake = asyncio.Event()
        self._waiting: Wait | None = None
        self._enough = -1  # while it waits for room: claim again when no more than these are ready; otherwise -1
        self._check_at: list[float] = []  # by the clock of the event loop
        self._check_timer: asyncio.TimerHandle | None = None
        self._started_at = 0.0
        self._filling = False
        self._stopped = False

    # What it is told

    def wake(self, recheck: bool = True) -> None:
        """There may be a job to claim. `recheck`: check again a little later."""
        self.check_soon(recheck)
        self._tell(Told.LOOK)

    def check_soon(self, own: bool = True) -> None:
        """Somebody was told to look. If it is up to this claimer (`own`), check a little later whether a job is left.
        The checks for an earlier notification are not needed any more."""
        now = asyncio.get_running_loop().time()
        self._check_at = [now + seconds for seconds in RECHECK_SECONDS if own]
        self._arm()

    def finish(self) -> None:
        """A job finished: its slot is free."""
        self.running -= 1
        self._prefetch.finished += 1
        self.refill()

    def refill(self) -> None:
        """A slot or a child process is free."""
        if self.ready or self.suspects.waiting:
            self.fill()
        if len(self.ready) <= self._enough and self._room() > 0:
            self._tell(Told.ROOM)

    def set_limit(self, limit: int) -> None:
        """Run so many jobs at once from now on. Those that run are not stopped."""
        self._limit = limit
        self.fill()
        self._release_surplus()
        self._tell(Told.ROOM)

    def forget(self, claim: Claim) -> None:
        """The job was cancelled: it does not start."""
        for jobs in (self.suspects.waiting, self.ready):
            if claim in jobs:
                jobs.remove(claim)

    def stop(self) -> None:
        """Claim no more. `run` returns when the current claim has been answered; its jobs are given back."""
        self._stopped = True
        self._wake.set()

    def release_ready(self) -> None:
        """Give back the jobs that were claimed and not started."""
        claims = self.claims()
        self.suspects.waiting.clear()
        self.ready.clear()
        self._host.release(claims)

    # What it says

    def claims(self) -> list[Claim]:
        """The jobs that are claimed and not started."""
        return [*self.suspects.waiting, *self.ready]

    def known(self) -> set[UUID]:
        return {claim.id for claim in self.claims()}

    @property
    def is_waiting(self) -> bool:
        """Whether it waits, and no job was due when it looked."""
        return self._waiting is not None and self._waiting.until is Until.JOBS and not self._wake.is_set()

    # What it does

    async def run(self) -> None:
        """Claim until stopped."""
        failures = 0
        while not self._stopped:
            try:
                action = await self.step()
            except DatabaseUnavailable:
                failures += 1
                await asyncio.sleep(reconnect_delay(failures))
            else:
                failures = 0
                if isinstance(action, Wait):
                    await self.wait(action)
            with idle():
                await self._host.awake.wait()

    async def step(self) -> Action:
        """Do one thing, and return it; or, if nothing is to be done, how to wait."""
        await self.suspects.offer()
        state = self._look()
        match action := decide(state):
            case decision.Claim(number, listen):
                state.looking |= self._listen() is Told.LOOK
                await self._claim(number, listen)
            case Check():
                quiet = self._source.drain and not self._host.busy()
                state.checked(await self._source.next_due(self.types))
                if state.found is decision.Found.NOTHING_DUE and self._source.drain:
                    self._host.found_nothing(self, quiet)
            case GiveBack():
                self._host.release(list(self.ready))
                self.ready.clear()
                action = Wait(math.inf, Until.ROOM)
        if isinstance(action, Wait) and action.until in (Until.ROOM, Until.ALLOWED):
            self._report_full(0)
        return action

    def _look(self) -> State:
        state = self._state
        state.now = time.monotonic()
        state.may_start = self._host.may_start()
        state.pause = self.suspects.pause()
        state.room = self._room()
        stalls = self.ready and not self._prefetch.is_fixed
        state.stalled_in = self._started_at + STALLED_SECONDS - state.now if stalls else math.inf
        state.poll = self._host.poll()
        state.may_listen = self._source.may_listen
        return state

    async def _claim(self, number: int, listen: bool) -> None:
        state = self._state
        self.idle = False  # during the claim, so that another claimer does not conclude that this one is done
        claims, next_due = await self._source.claim(self.types, number, listen)
        if claims:
            self.claimed_at = time.monotonic()
            self.take(claims)
        state.claimed(len(claims), number)
        if len(claims) == number:
            self._report_full(number)
        elif listen:
            state.checked(next_due)

    def take(self, claims: Sequence[Claim]) -> None:
        """This worker has claimed these jobs."""
        self.idle = False
        if self._host.may_start():
            self._source.announce(claims)
            for claim in claims:
                suspect = claim.crashes and self._host.is_suspect(claim)
                (self.suspects.waiting if suspect else self.ready).append(claim)
            self.fill()
            self._release_surplus()
        else:
            # The worker is stopping, or cannot be sure that the jobs are still its own.
            self._host.release(claims)

    def fill(self) -> None:
        """Start jobs that are ready while there is room."""
        if self._filling:  # a job that was started here has finished at once
            return
        self._filling, started = True, 0
        try:
            while (jobs := self._startable()) is not None:
                if started == TURN:
                    asyncio.get_running_loop().call_soon(self.fill)
                    return
                started += 1
                self.running += 1
                claim = jobs.popleft()
                if not self._host.start_job(claim, self.finish):
                    self.running -= 1
                    self._host.release([claim], STILL_RUNNING_SECONDS)
        finally:
            self._filling = False
            if started:
                self._started_at = time.monotonic()

    def _startable(self) -> deque[Claim] | None:
        """Those jobs of which the first can start now."""
        if self.running < self._limit:
            if self.suspects.waiting and self._host.free_children > 0:
                return self.suspects.waiting
            if self.ready and not (self.in_children and self._host.free_children < 1):
                return self.ready
        return None

    def _room(self) -> int:
        """How many to claim now; 0 while enough are ready."""
        ahead = self._prefetch.size()
        room = self._limit - self.running
        if room < 0 or self._limit == 0:  # it was lowered
            return 0
        if self.in_children:
            room = min(room, self._host.free_children)
        room += ahead - len(self.ready)
        return min(room, BATCH) if len(self.ready) <= ahead // 2 else 0

    def _release_surplus(self) -> None:
        """Give back the jobs that are not started, if the limit was lowered below what runs: others may have room."""
        if self.running > self._limit or self._limit == 0:
            self.release_ready()

    def _report_full(self, claimed: int) -> None:
        if self._state.looking:
            self._state.looking = False
            self._host.full(claimed)

    async def wait(self, wait: Wait) -> None:
        """Wait until it is told something, or the time is over."""
        # Not asyncio.wait_for, which would make a task of each wait.
        timer = (
            None if wait.seconds == math.inf else asyncio.get_running_loop().call_later(wait.seconds, self._wake.set)
        )
        self._waiting = wait
        self._enough = self._prefetch.size() // 2 if wait.until is Until.ROOM else -1
        try:
            with idle():
                await self._wake.wait()
        finally:
            self._waiting, self._enough = None, -1
            if timer is not None:
                timer.cancel()
        self._state.waited(wait, self._listen())

    def _listen(self) -> Told:
        """What it was told since the last time."""
        told, self._told = self._told, Told.NOTHING
        self._wake.clear()
        return told

    def _tell(self, told: Told) -> None:
        self._told = max(self._told, told)
        self._wake.set()

    def _arm(self) -> None:
        # One timer serves many notifications: it may end before the time of the next check, and is then set again.
        timer = self._check_timer
        if self._check_at and (timer is None or timer.when() > self._check_at[0]):
            if timer is not None:
                timer.cancel()
            self._check_timer = asyncio.get_running_loop().call_at(self._check_at[0], self._check_again)

    def _check_again(self) -> None:
        self._check_timer = None
        if self._check_at and asyncio.get_running_loop().time() >= self._check_at[0]:
            self._check_at.pop(0)
            if self.is_waiting:
                self._tell(Told.CHECK)
        self._arm()
