"""Watches the server's clock: compares it with the monotonic clock of this machine, and notes when it has jumped.

The server cannot tell a jump ahead from a time in which nothing happened. A worker can, and must before it recovers
jobs: after a jump ahead, the leases of all workers seem to have run out. The database takes into account what was
noted (clock_before.sql).
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from treadle.app.listeners import Listeners
from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import ReconnectingConnection
from treadle.words import events
from treadle.words.clock import now

# A smaller jump changes nothing: it is shorter than any lease, and the time for which a job waits for a tick.
SMALLEST_JUMP = timedelta(seconds=1)


class Reading(NamedTuple):
    """The server's clock, and between which times of this machine it was read."""

    server: datetime
    losses: bool
    """Whether, by that clock, a worker has missed its lease: the same statement says so, which is all that an idle
    worker has to know."""
    began: float
    ended: float


class ServerClock:
    def __init__(self, connection: ReconnectingConnection, worker_id: str, listeners: Listeners) -> None:
        self._connection = connection
        self._worker_id = worker_id
        self._listeners = listeners
        self._last: Reading | None = None
        self._first = float("inf")

    async def check(self) -> Reading:
        """Read the server's clock. If it has jumped since the last time, this is noted in the database first."""
        began = now()
        server, losses = await self._connection.run(worker_queries.get_clock_and_losses())
        reading = Reading(server, losses, began, now())
        if self._last is None:
            self._first = began
        elif abs(jumped := jump(self._last, reading)) > SMALLEST_JUMP:
            before = reading.server - jumped
            await self._connection.run(worker_queries.note_clock_jump(before, reading.server))
            self._listeners.emit(events.ClockJumped(self._worker_id, jumped.total_seconds(), before, reading.server))
        self._last = reading
        return reading

    @property
    def watched(self) -> float:
        """For how many seconds. An earlier jump was not noticed here."""
        return now() - self._first


def jump(last: Reading, this: Reading) -> timedelta:
    """By how much the server's clock has jumped, as far as that is certain: readings take some time."""
    passed = this.server - last.server
    least, most = timedelta(seconds=this.began - last.ended), timedelta(seconds=this.ended - last.began)
    return passed - min(max(passed, least), most)
