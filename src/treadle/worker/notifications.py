"""The notifications that a worker receives, and the probes that check whether they arrive.

(empty)                         there may be jobs: all look
jobs <number>                   there may be jobs: of each group of peers, the first in the order of this number looks
jobs <number> <rank> <group>   the workers before this rank have no room: the one of this rank looks
jobs <number> all <group>       there are more jobs than one worker has room for: all of the group look
                                (a negative number is that of a worker which was full without a notification)
probe <worker>                  a worker checks whether its notifications arrive
probe <worker> <group>          they do
asleep <worker> <group>         they do, and it sleeps: it sends no more probes
left <worker>                   it stops
cancelled <job>
schedules                       they were changed
concurrency <worker>            an operator has changed how many jobs it runs at once
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from uuid import UUID

from treadle.db.notifications import NotificationListener
from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import ReconnectingConnection
from treadle.text.log import log
from treadle.worker.options import ASLEEP_LEASE
from treadle.worker.peers import Peers
from treadle.worker.services import Delay, within
from treadle.worker.sleeper import Sleeper

PROBE_SECONDS = 15.0
# How long a worker that stops tries to tell the others: they find out anyway.
LEAVE_SECONDS = 1.0
# How long a probe may take to arrive, and how long a listener to reconnect.
ARRIVE_SECONDS = 2.0
RECONNECT_SECONDS = 3.0
# A single probe may be late on a busy machine.
REPORTED_MISSES = 2
# A peer has missed two probes.
FORGET_SECONDS = 2 * PROBE_SECONDS * 1.1 + 2 * ARRIVE_SECONDS
# Peers answer a new one within this time, not all at once.
GREET_SECONDS = 0.5
# A worker without room passes on a notification at most this often: on a busy queue there is nobody to pass it to.
PASS_SECONDS = 0.1
SEND_SECONDS = 60.0


class Notifications:
    def __init__(
        self,
        url: str,
        schema: str,
        name: str,
        worker_id: str,
        group: str,
        probes: ReconnectingConnection,
        messages: ReconnectingConnection,
        *,
        wake: Callable[[bool], None],
        check_soon: Callable[[bool], None],
        cancel: Callable[[UUID], None],
        schedules_changed: Callable[[], None],
        concurrency_changed: Callable[[], None],
        sleeper: Sleeper,
    ) -> None:
        """`wake` is called when this worker is to look for jobs, and is told whether to look again a little later;
        `check_soon`, when another one is, and whether this one checks that none were left; `cancel`, when a job was
        cancelled that may run here; `schedules_changed`, when somebody changed a schedule;
        `concurrency_changed`, when somebody changed how many jobs this worker runs at once. The connections are for
        sending."""
        self.listener = NotificationListener(url, schema, "work", self.received, name)
        self.peers = Peers(worker_id, group, FORGET_SECONDS)
        self._worker_id = worker_id
        self._probes = probes
        self._connection = messages
        self._wake = wake
        self._check_soon = check_soon
        self._cancel = cancel
        self._schedules_changed = schedules_changed
        self._concurrency_changed = concurrency_changed
        self._sleeper = sleeper
        self._turn: tuple[int, int] | None = None  # the number and the rank of the last notification for this worker
        self.answered: int | None = None
        """The number of the last notification if this worker answers it, has passed it on, or checks that another one
        answers it; 0: others do; None: it had no number, or one of another worker."""
        self._passed_at = float("-inf")
        self._all_looked_at = float("-inf")
        self._messages: list[str] = []
        self.to_send = asyncio.Event()
        self._missed = 0  # probes in a row
        self._sleeps = asyncio.Event()
        self.probe_now = asyncio.Event()
        self.probe_now.set()

    def received(self, message: str) -> None:
        """Handle a notification. Any session may send one: unknown messages are ignored."""
        with contextlib.suppress(ValueError):
            match message.split(" "):
                case [""]:
                    self._all_look(recheck=True)
                case ["jobs", number]:
                    self._one_looks(int(number), 0)
                case ["jobs", _, "all", self.peers.group]:
                    self._all_look(recheck=False)
                case ["jobs", number, rank, self.peers.group]:
                    self._one_looks(int(number), int(rank))
                case ["probe", worker_id]:
                    self._received_probe(worker_id)
                case ["probe", worker_id, group]:
                    self._received_probe(worker_id, group)
                case ["asleep", worker_id, group]:
                    self._received_asleep(worker_id, group)
                case ["left", worker_id]:
                    self.peers.leave(worker_id)
                case ["cancelled", job_id]:
                    self._cancel(UUID(job_id))
                case ["schedules"]:
                    self._schedules_changed()
                    self._sleeper.look()
                case ["concurrency", self._worker_id]:
                    self._concurrency_changed()
                    self._sleeper.look()

    def pass_on(self, claimed: int) -> None:
        """This worker has no room for more jobs; it has just claimed so many. Others may have room."""
        turn, self._turn = self._turn, None
        peers, now = len(self.peers), time.monotonic()
        if peers == 0 or now - self._all_looked_at < PASS_SECONDS:
            return
        if claimed == 0:
            if turn is None or now - self._passed_at < PASS_SECONDS:
                return
            self._passed_at = now
        if turn is None:
            number = -time.time_ns()
            turn = (number, -1 if self.peers.rank(number) else 0)
        number, rank = turn
        if claimed >= peers:
            self._send(f"jobs {number} all {self.peers.group}")
        elif rank < peers:
            self._send(f"jobs {number} {rank + 1} {self.peers.group}")

    async def send(self) -> None:
        """Send the messages that wait."""
        messages, self._messages = self._messages, []
        for message in messages:
            await self._connection.run(worker_queries.notify_workers(message))

    async def leave(self) -> None:
        """Tell the peers that this worker stops."""
        await self._connection.run(worker_queries.announce_leaving(self._worker_id))

    async def probe(self) -> Delay:
        """Check whether notifications arrive; if they do not, the listener reconnects."""
        await self.listener.listening.wait()
        announced = f" {self.peers.group}" if self.listener.works else ""
        self.listener.works = False
        await self._probes.run(worker_queries.notify_workers(f"probe {self._worker_id}{announced}"))
        await asyncio.sleep(ARRIVE_SECONDS)
        self._report(self.listener.works)
        if self.listener.works:
            return Delay(PROBE_SECONDS)
        self.listener.reset()
        return Delay(RECONNECT_SECONDS)

    async def announce_sleep(self) -> bool:
        """Tell the peers that this worker sleeps. Returns whether the message arrives here, too: only then may it."""
        if not self.listener.works:
            return False
        self._sleeps.clear()
        await self._probes.run(worker_queries.notify_workers(f"asleep {self._worker_id} {self.peers.group}"))
        if await within(self._sleeps.wait(), ARRIVE_SECONDS):
            return True
        self.listener.reset()
        return False

    def _report(self, works: bool) -> None:
        """Log once that notifications do not arrive, and once that they arrive again."""
        missed, self._missed = self._missed, 0 if works else self._missed + 1
        if works and missed >= REPORTED_MISSES:
            log.info("notifications arrive again")
        elif self._missed == REPORTED_MISSES:
            log.warning("notifications do not arrive: polling; behind a pooler, set TREADLE_LISTEN_URL to a direct URL")

    def _all_look(self, recheck: bool) -> None:
        self._all_looked_at = time.monotonic()
        self.answered = None
        self._sleeper.wake()
        self._wake(recheck)

    def _one_looks(self, number: int, rank: int) -> None:
        own = self.peers.rank(number)
        self.answered = None if number < 0 else number if own <= rank + 1 else 0
        if own == rank:
            self._turn = (number, rank)
            self._sleeper.wake()
            # The last in the order has nobody behind it who checks.
            self._wake(own == len(self.peers))
        else:
            self._check_soon(own == rank + 1)
            if own == rank + 1:
                self._sleeper.look_soon()

    def _received_asleep(self, worker_id: str, group: str) -> None:
        if worker_id == self._worker_id:
            self._sleeps.set()
        else:
            self.peers.hear(worker_id, group, ASLEEP_LEASE.total_seconds())

    def _received_probe(self, worker_id: str, group: str = "") -> None:
        if worker_id == self._worker_id:
            self.listener.works = True
            if not group:
                self._send(f"probe {worker_id} {self.peers.group}")
            return
        self._sleeper.peer_awake()
        if not group:
            self.peers.leave(worker_id)
        elif self.peers.hear(worker_id, group) and self.listener.works:
            # It does not know this worker yet.
            greeting = f"{'asleep' if self._sleeper.asleep else 'probe'} {self._worker_id} {self.peers.group}"
            delay = random.uniform(0, GREET_SECONDS)  # noqa: S311 - jitter, not a secret
            asyncio.get_running_loop().call_later(delay, self._send, greeting)

    def _send(self, message: str) -> None:
        self._messages.append(message)
        self.to_send.set()
