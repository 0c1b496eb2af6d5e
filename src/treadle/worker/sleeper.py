"""Lets a worker sleep while there is nothing to do (docs/decisions/0053-asleep.md).

Asleep, it sends one statement a minute and writes nothing. All that works periodically waits for `awake`: the claimers,
the scheduler and the services. The worker wakes for a notification, when something is due, when the connection that
listens breaks, and after an hour.

It falls asleep only if a notification that it has just sent arrives. It renews its lease before it claims.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from treadle.db.notifications import NotificationListener
from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection
from treadle.words.clock import now
from treadle.worker.claimer import RECHECK_SECONDS
from treadle.worker.claimers import Claimers
from treadle.worker.concurrency import Concurrency
from treadle.worker.job_slots import JobSlots
from treadle.worker.maintenance import SOON
from treadle.worker.scheduler import Scheduler
from treadle.worker.services import within

# It sleeps when it has had no job for so long.
AFTER_SECONDS = 60.0
# It stays awake for at least so long: every service is called at least once if it has slept for an hour.
AWAKE_SECONDS = 10.0
# How often it looks whether there is something to do: a notification may be lost.
LOOK_SECONDS = 60.0
# How long it sleeps at most. Then it renews its lease, and does the maintenance.
MOST_SECONDS = 3600.0
# When a peer has woken, it looks so much later when a lease could run out: not while the peer claims what woke it.
PEER_SECONDS = 1.0
# How often to check whether it may sleep.
CHECK_SECONDS = 1.0


class Parts(NamedTuple):
    """What it needs of its worker."""

    worker: worker_queries.Worker
    slots: JobSlots
    poll: float
    connection: ReconnectingConnection
    """That of the claims."""
    listener: NotificationListener
    announce: Callable[[], Awaitable[bool]]
    """Tells the peers that the worker sleeps; returns whether that notification has arrived here, too."""
    probe_now: asyncio.Event
    claimers: Claimers
    scheduler: Scheduler
    concurrency: Concurrency
    is_idle: Callable[[], bool]
    """Whether the worker has no jobs, and knows that it has none."""
    unavailable: Callable[[DatabaseUnavailable | None], None]


class Sleeper:
    parts: Parts
    """Since the start of the worker."""

    def __init__(self) -> None:
        self.awake = asyncio.Event()
        """Cleared while it sleeps."""
        self.awake.set()
        self._look = asyncio.Event()
        self._woken = False
        self._next_look = 0.0

    @property
    def asleep(self) -> bool:
        return not self.awake.is_set()

    def wake(self) -> None:
        """There is something to do."""
        self._woken = True
        self._look.set()

    def look(self) -> None:
        """Look now: there may be something to do."""
        self._look.set()

    def look_soon(self) -> None:
        """Another worker was told to claim: look a little later whether a job is left."""
        for seconds in RECHECK_SECONDS:
            self._look_in(seconds)

    def peer_awake(self) -> None:
        """Another worker has renewed its lease: look when that could run out, unless the next look comes before."""
        if self._next_look > time.monotonic() + self.parts.worker.lease.total_seconds():
            self._next_look = time.monotonic() + PEER_SECONDS
            self._look_in(PEER_SECONDS)

    def _look_in(self, seconds: float) -> None:
        if self.asleep:
            asyncio.get_running_loop().call_later(seconds, self._look.set)

    async def run(self) -> None:
        """Sleep whenever there is nothing to do, until cancelled."""
        if self.asleep:  # it is restarted after an error
            await self._wake_up()
        self.parts.listener.lost = self.wake
        idle_since = time.monotonic()
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            idle_since = max(idle_since, self.parts.claimers.claimed_at) if self.may_sleep() else time.monotonic()
            if time.monotonic() - idle_since < AFTER_SECONDS:
                continue
            self._woken = False
            idle_since = time.monotonic()
            if await self._is_notified() and self.may_sleep():
                self.parts.slots.asleep = True
                self.awake.clear()
                enough = AWAKE_SECONDS
                try:
                    await self._until_woken(time.monotonic() + MOST_SECONDS)
                except DatabaseUnavailable as error:
                    self.parts.unavailable(error)
                    enough = AFTER_SECONDS
                await self._wake_up()
                idle_since = time.monotonic() - AFTER_SECONDS + enough

    def may_sleep(self) -> bool:
        """Whether the worker has no jobs, and found none when it looked."""
        return self.parts.is_idle() and self.parts.claimers.are_waiting

    async def _is_notified(self) -> bool:
        try:
            return await self.parts.announce()
        except DatabaseUnavailable as error:
            self.parts.unavailable(error)
            return False

    async def _wake_up(self) -> None:
        parts, began = self.parts, now()
        parts.slots.asleep = False
        renewal = worker_queries.renew([parts.worker.worker_id], parts.worker.lease)
        # Before the first claim: the jobs of a worker are safe only if its lease soon runs out without it.
        await parts.connection.persist(renewal, parts.unavailable)
        parts.slots.renewed_at = began
        parts.probe_now.set()
        self.awake.set()
        parts.scheduler.wake.set()
        parts.claimers.wake()

    async def _until_woken(self, end: float) -> None:
        parts, worker = self.parts, self.parts.worker
        look_every = max(parts.poll, LOOK_SECONDS)
        while not self._woken and time.monotonic() < end:
            self._look.clear()
            schedules = sorted(parts.scheduler.in_force)
            query = worker_queries.look_asleep(worker.worker_id, worker.job_types, worker.queues, schedules)
            found = await parts.listener.ask(query)
            parts.concurrency.heard(found.concurrency)
            due = math.inf if found.seconds is None else found.seconds
            if found.losses or due <= 0:
                return
            next_loss = math.inf if found.next_loss is None else found.next_loss + SOON
            wait = min(look_every, next_loss, due, end - time.monotonic())
            self._next_look = time.monotonic() + wait
            if not self._woken and not await within(self._look.wait(), wait) and wait == due:
                return
