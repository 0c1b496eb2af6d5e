"""Lets a worker sleep while there is nothing to do (docs/decisions/0053-asleep.md).

Asleep, it sends one statement a minute and writes nothing. All that works periodically waits for `awake`: the claimers,
the scheduler and the services. The worker wakes for a notification, when something is due, when the connection that
listens breaks, and after an hour.

It falls asleep only if a notification that it has just sent arrives. It renews its lease before it claims.
"""

import asyncio
import math
import time
from collections.abc import Callable

from treadle.db.queries import worker as worker_queries
from treadle.db.query import Query
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection
from treadle.words.clock import now
from treadle.worker.job_slots import JobSlots
from treadle.worker.maintenance import SOON
from treadle.worker.notifications import Notifications
from treadle.worker.options import Settings
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


class Sleeper:
    def __init__(self, worker_id: str, slots: JobSlots, chosen: Settings, awake: asyncio.Event) -> None:
        self._worker_id = worker_id
        self._slots = slots
        self._lease = chosen.lease
        self._look_every = max(chosen.poll, LOOK_SECONDS)
        self.awake = awake
        self._look = asyncio.Event()
        self._woken = False
        self._next_look = 0.0

    def attach(
        self,
        connection: ReconnectingConnection,
        notifications: Notifications,
        may_sleep: Callable[[], bool],
        worked_at: Callable[[], float],
        woken_up: Callable[[], None],
        query: Callable[[], Query[worker_queries.AsleepLook]],
        concurrency: Callable[[int | None], None],
        unavailable: Callable[[DatabaseUnavailable | None], None],
    ) -> None:
        """The parts of the worker, when it starts. `may_sleep` says whether it has nothing to do, `worked_at` when it
        claimed last. `query` looks whether there is something to do. `woken_up` is called when the worker is awake
        again. The connection is that of the claims."""
        self._connection = connection
        self._notifications = notifications
        self._may_sleep = may_sleep
        self._worked_at = worked_at
        self._woken_up = woken_up
        self._query = query
        self._concurrency = concurrency
        self._unavailable = unavailable
        notifications.listener.lost = self.wake

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

    def look_in(self, seconds: float) -> None:
        """Look after so many seconds, if it sleeps."""
        if self.asleep:
            asyncio.get_running_loop().call_later(seconds, self._look.set)

    def peer_awake(self) -> None:
        """Another worker has renewed its lease: look when that could run out, unless the next look comes before."""
        if self._next_look > time.monotonic() + self._lease.total_seconds():
            self._next_look = time.monotonic() + PEER_SECONDS
            self.look_in(PEER_SECONDS)

    async def run(self) -> None:
        """Sleep whenever there is nothing to do, until cancelled."""
        if self.asleep:  # it is restarted after an error
            await self._wake_up()
        idle_since = time.monotonic()
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            idle_since = max(idle_since, self._worked_at()) if self._may_sleep() else time.monotonic()
            if time.monotonic() - idle_since < AFTER_SECONDS:
                continue
            self._woken = False
            idle_since = time.monotonic()
            if await self._is_notified() and self._may_sleep():
                self._slots.asleep = True
                self.awake.clear()
                enough = AWAKE_SECONDS
                try:
                    await self._until_woken(time.monotonic() + MOST_SECONDS)
                except DatabaseUnavailable as error:
                    self._unavailable(error)
                    enough = AFTER_SECONDS
                await self._wake_up()
                idle_since = time.monotonic() - AFTER_SECONDS + enough

    async def _is_notified(self) -> bool:
        try:
            return await self._notifications.announce_sleep()
        except DatabaseUnavailable as error:
            self._unavailable(error)
            return False

    async def _wake_up(self) -> None:
        self._slots.asleep = False
        began = now()
        # Before the first claim: the jobs of a worker are safe only if its lease soon runs out without it.
        await self._connection.persist(worker_queries.renew([self._worker_id], self._lease), self._unavailable)
        self._slots.renewed_at = began
        self._notifications.probe_now.set()
        self.awake.set()
        self._woken_up()

    async def _until_woken(self, end: float) -> None:
        while not self._woken and time.monotonic() < end:
            self._look.clear()
            found = await self._notifications.listener.ask(self._query())
            self._concurrency(found.concurrency)
            due = math.inf if found.seconds is None else found.seconds
            if found.losses or due <= 0:
                return
            next_loss = math.inf if found.next_loss is None else found.next_loss + SOON
            wait = min(self._look_every, next_loss, due, end - time.monotonic())
            self._next_look = time.monotonic() + wait
            if not self._woken and not await within(self._look.wait(), wait) and wait == due:
                return
