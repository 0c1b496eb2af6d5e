"""Claims jobs while there is room, and starts them: a slot that becomes free is refilled at once.

When nothing is left the claimer waits: for a notification, until the next job is due, or for the next poll.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from uuid import UUID

from treadle.app.listeners import Listeners
from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection, reconnect_delay
from treadle.words import events
from treadle.words.claim import Claim
from treadle.worker.due_check import DueCheck
from treadle.worker.prefetch import Prefetch
from treadle.worker.suspects import Suspects

BATCH = 2000
# After starting this many jobs, other tasks of the event loop get a turn.
TURN = 100
# While the worker may not start jobs, it checks this often whether it may again.
FENCED_SECONDS = 0.05
# If no job could be started for this long, those prefetched are given back: the jobs that run are longer than the
# ones before, and other workers may have room.
STALLED_SECONDS = 1.0
# The delay before a job is retried that still runs here, in a thread that does not stop.
STILL_RUNNING_SECONDS = 1.0
# An enqueue just after a notification sends none, and its commit may become visible a while after the claimer has
# checked: on a slow disk, or with synchronous replication. So somebody checks again this long after the notification,
# unless there is another one: another worker, or the same one if there is no other.
RECHECK_SECONDS = (0.05, 0.2, 0.5)
# While jobs keep arriving, a claimer checks only this often whether more are due. A check takes as long as a claim; it
# also asks for the next notification, with which other workers get their share.
UNCHECKED_SECONDS = 0.05


class Claimer:
    """`step` is one round; `run` calls it and waits in between."""

    def __init__(
        self,
        connection: ReconnectingConnection,
        worker_id: str,
        types: Sequence[str],
        queues: Sequence[str] | None,
        limit: int,
        *,
        start: Callable[[Claim, Callable[[], None]], bool],
        apart: bool = False,
        free_children: Callable[[], int] = lambda: 1,
        is_suspect: Callable[[Claim], bool] = lambda _claim: False,
        release: Callable[[Sequence[Claim], float | None], None],
        may_start: Callable[[], bool],
        poll: Callable[[], float],
        listeners: Listeners,
        unavailable: Callable[[DatabaseUnavailable | None], None],
        reply_lost: Callable[[], None],
        prefetch: int | None = None,
        drain: bool = False,
        busy: Callable[[], bool] = lambda: False,
        found_nothing: Callable[["Claimer", bool], None] = lambda _claimer, _quiet: None,
        full: Callable[[int], None] = lambda _claimed: None,
        due_check: DueCheck | None = None,
        awake: asyncio.Event | None = None,
    ) -> None:
        """`start` runs a job and calls back when it finishes; it returns False if the job still runs here. `release`
        gives back jobs that were not started. `poll` says how long to wait without a notification.

        `apart`: all jobs of this claimer run in child processes. Those that `is_suspect` do in any case. Such a job is
        started only if `free_children` says that there is a child process for it.

        With `drain`, `found_nothing` is called when nothing is due, not even a job that was committed late; its second
        argument says whether the worker was not `busy` before the claimer checked.

        `full` is called when the claimer was to look for jobs, and has no room for more than those it has just claimed.
        The claimers of a worker share a `due_check`.

        `awake` is cleared while the worker sleeps. It must not claim then: its lease is long, and its jobs would be
        recovered late.
        """
        self.connection = connection
        self.types = list(types)
        self._worker_id = worker_id
        self._queues = queues
        self._limit = limit
        self._start = start
        self.apart = apart
        self._free_children = free_children
        self._is_suspect = is_suspect
        self._release = release
        self._may_start = may_start
        self._poll = poll
        self._listeners = listeners
        self._unavailable = unavailable
        self._reply_lost = reply_lost
        self._found_nothing = found_nothing
        self._busy = busy
        self._prefetch = Prefetch(prefetch)
        self._drain = drain
        self._full = full
        self._due_check = due_check or DueCheck(connection, worker_id, queues, drain)
        self._awake = awake
        self.ready: deque[Claim] = deque()
        """Claimed and not yet started."""
        self.suspects = Suspects(release)
        self.running = 0
        self.claimed_at = 0.0
        self._started_at = 0.0
        self.idle = False
        """When draining: whether it found nothing, and has claimed nothing since."""
        self.is_waiting = False
        """Whether it waits for a notification, a due job or the next poll."""
        self._wake = asyncio.Event()
        self._stopped = False
        self._filling = False
        self._enough = -1  # while it waits for room: claim again when no more than these are ready; otherwise -1
        self._blocked_by_jobs = False
        self._check_first = False  # there may be no job: check before claiming
        self._told_to_look = False
        self._told_to_check = False
        self._recheck_when_told = True
        self._rechecks: list[float] = []  # how long to wait before each of them
        self._looking = False  # since it waited for jobs or was told to look, it was not full and has not found nothing
        self._check_timers: list[asyncio.TimerHandle] = []
        self._locked_rounds = 0  # rounds in a row that found only jobs locked by other transactions
        self._unchecked_until = 0.0  # jobs became due while others were claimed: until then it claims without checks

    def finish(self) -> None:
        """A job finished: its slot is free."""
        self.running -= 1
        self._prefetch.finished += 1
        self.refill()

    def set_limit(self, limit: int) -> None:
        """Run so many jobs at once from now on. Those that run are not stopped."""
        self._limit = limit
        self.fill()
        self._release_surplus()
        self._wake.set()

    def refill(self) -> None:
        """A slot or a child process is free."""
        if self.ready or self.suspects.waiting:
            self.fill()
        if len(self.ready) <= self._enough and self._wanted() > 0:
            self._wake.set()

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
                if not self._start(claim, self.finish):
                    self.running -= 1
                    self._release([claim], STILL_RUNNING_SECONDS)
        finally:
            self._filling = False
            if started:
                self._started_at = time.monotonic()

    def _startable(self) -> deque[Claim] | None:
        """Those jobs of which the first can start now."""
        if self.running < self._limit:
            if self.suspects.waiting and self._free_children() > 0:
                return self.suspects.waiting
            if self.ready and not (self.apart and self._free_children() < 1):
                return self.ready
        return None

    def take(self, claims: Sequence[Claim]) -> None:
        """This worker has claimed these jobs."""
        self.idle = False
        if self._may_start():
            if self._listeners.wants(events.JobClaimed):
                for claim in claims:
                    self._listeners.emit(events.about(claim, self._worker_id, events.JobClaimed))
            for claim in claims:
                (self.suspects.waiting if claim.crashes and self._is_suspect(claim) else self.ready).append(claim)
            self.fill()
            self._release_surplus()
            self.suspects.offer()
        else:
            # The worker is stopping, or cannot be sure that the jobs are still its own.
            self._release(claims, None)

    def release_ready(self) -> None:
        """Give back the jobs that were claimed and not started."""
        claims = [*self.suspects.waiting, *self.ready]
        self.suspects.waiting.clear()
        self.ready.clear()
        self._release(claims, None)

    def forget(self, claim: Claim) -> None:
        """The job was cancelled: it does not start."""
        for jobs in (self.suspects.waiting, self.ready):
            if claim in jobs:
                jobs.remove(claim)

    def wake(self, recheck: bool = True) -> None:
        """There may be a job to claim. `recheck`: check again a little later."""
        self.check_soon(False)
        self._told_to_look = True
        self._recheck_when_told = recheck
        self._wake.set()

    def check_soon(self, own: bool = True) -> None:
        """Another worker was told to look. If it is up to this one (`own`), check a little later whether a job is left.
        The checks for an earlier notification are not needed any more."""
        for timer in self._check_timers:
            timer.cancel()
        self._rechecks = []
        loop = asyncio.get_running_loop()
        self._check_timers = [loop.call_later(seconds, self._check) for seconds in RECHECK_SECONDS if own]

    def stop(self) -> None:
        """Claim no more. `run` returns when the current claim has been answered; its jobs are given back."""
        self._stopped = True
        self._wake.set()

    def claims(self) -> list[Claim]:
        """The jobs that are claimed and not started."""
        return [*self.suspects.waiting, *self.ready]

    def known(self) -> set[UUID]:
        return {claim.id for claim in self.claims()}

    @property
    def found_nothing_due(self) -> bool:
        """Whether it waits, and no job was due when it looked."""
        return self.is_waiting and self._blocked_by_jobs and not self._wake.is_set()

    async def run(self) -> None:
        """Claim until stopped."""
        woken, failures = False, 0
        while not self._stopped:
            try:
                delay = await self.step(woken)
            except DatabaseUnavailable as error:
                self._unavailable(error)
                failures += 1
                woken = False
                await asyncio.sleep(reconnect_delay(failures))
            else:
                failures = 0
                woken = delay > 0 and await self._wait(delay)
            if self._awake is not None:
                await self._awake.wait()

    async def step(self, woken: bool = False) -> float:
        """One round: claim if there is room, and start what was claimed. Returns how many seconds to wait before the
        next round unless woken. `woken` says how the wait before this round ended."""
        if woken and self._blocked_by_jobs:
            self._check_first = self._told_to_check and not self._told_to_look
            if not self._check_first and self._recheck_when_told:
                self._rechecks = [after - before for before, after in pairwise((0.0, *RECHECK_SECONDS))]
        self._looking |= self._told_to_look or self._blocked_by_jobs
        self._told_to_look = self._told_to_check = self._blocked_by_jobs = False
        self._enough = -1
        self._wake.clear()
        if not self._may_start():
            self._report_full(0)
            return FENCED_SECONDS
        self.suspects.offer()
        if pause := self.suspects.pause():
            self._report_full(0)
            return pause
        wanted = self._wanted()
        if wanted < 1:
            self._report_full(0)
            self._enough = self._prefetch.size() // 2
            return self._release_stalled()
        # A claim that finds too little also says when the next job is due, unless that need not be known yet. What else
        # a check is for is done once a second.
        listen = not self._drain and time.monotonic() >= self._unchecked_until and self._due_check.is_recent()
        claims, next_due = ([], None) if self._check_first else await self._claim(wanted, listen)
        if claims and len(claims) == wanted:
            self._locked_rounds = 0
            self._report_full(len(claims))
            return 0.0
        if claims and time.monotonic() < self._unchecked_until:
            return 0.0
        quiet = self._drain and not self._busy()
        if self._check_first or not listen:
            next_due = await self._due_check.next_due(self.types)
        self._unavailable(None)
        due = next_due is not None and next_due <= 0
        self._unchecked_until = time.monotonic() + UNCHECKED_SECONDS if due and claims else 0.0
        if not due:
            self._locked_rounds = 0
            if self._drain:
                self._found_nothing(self, quiet)
            return self._wait_for_jobs(next_due)
        if claims or self._check_first:
            self._check_first = False
            return 0.0
        # Jobs are due, but other transactions have locked them: wait before the next claim.
        self._locked_rounds += 1
        return min(0.002 * 2.0 ** min(self._locked_rounds, 8), self._poll())

    async def _claim(self, wanted: int, listen: bool) -> worker_queries.Claimed:
        self.idle = False  # during the claim, so that another claimer does not conclude that this one is done
        try:
            with self._due_check.claiming():
                claimed = await self.connection.run(
                    worker_queries.claim(
                        self._worker_id,
                        self.types,
                        wanted,
                        self._queues,
                        listen=listen,
                        answered=self._due_check.answered(),
                    )
                )
        except DatabaseUnavailable:
            # The claim may have been carried out.
            self._reply_lost()
            raise
        if claimed.claims:
            self.claimed_at = time.monotonic()
            self.take(claimed.claims)
        return claimed

    def _release_stalled(self) -> float:
        """Give back jobs that were prefetched and cannot start. Returns when to check that again."""
        if self._prefetch.is_fixed or not self.ready:
            return math.inf
        left = self._started_at + STALLED_SECONDS - time.monotonic()
        if left > 0:
            return left
        claims = list(self.ready)
        self.ready.clear()
        self._release(claims, None)
        return math.inf

    def _release_surplus(self) -> None:
        """Give back the jobs that are not started, if the limit was lowered below what runs: others may have room."""
        if self.running > self._limit or self._limit == 0:
            self.release_ready()

    def _report_full(self, claimed: int) -> None:
        if self._looking:
            self._looking = False
            self._full(claimed)

    def _wait_for_jobs(self, next_due: float | None) -> float:
        every = self._rechecks.pop(0) if self._rechecks else self._poll()
        self._looking = False
        self._blocked_by_jobs = True
        self._check_first = next_due is None or next_due >= every
        return every if next_due is None else min(next_due, every)

    def _check(self) -> None:
        if self.is_waiting and self._blocked_by_jobs:
            self._told_to_check = True
            self._wake.set()

    async def _wait(self, seconds: float) -> bool:
        """Wait for this long; returns whether it was woken earlier."""
        timed_out = False

        def end() -> None:
            nonlocal timed_out
            timed_out = not self._wake.is_set()
            self._wake.set()

        # Not asyncio.wait_for, which would make a task of each wait.
        timer = None if seconds == math.inf else asyncio.get_running_loop().call_later(seconds, end)
        self.is_waiting = self._enough < 0 and timer is not None
        try:
            await self._wake.wait()
        finally:
            self.is_waiting = False
            if timer is not None:
                timer.cancel()
        return not timed_out

    def _wanted(self) -> int:
        """How many to claim now; 0 while enough are ready."""
        ahead = self._prefetch.size()
        room = self._limit - self.running
        if room < 0 or self._limit == 0:  # it was lowered
            return 0
        if self.apart:
            room = min(room, self._free_children())
        room += ahead - len(self.ready)
        return min(room, BATCH) if len(self.ready) <= ahead // 2 else 0
