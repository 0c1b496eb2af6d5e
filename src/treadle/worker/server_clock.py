"""Watches the server's clock: compares it with the monotonic clock of this machine, and notes when it has jumped.

The server cannot tell a jump ahead from a time in which nothing happened. A worker can, and must before it recovers
jobs: after a jump ahead, the leases of all workers seem to have run out. The database takes into account what was
noted (clock_before.sql).
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import ReconnectingConnection
from treadle.jobs.listeners import Listeners
from treadle.words import events
from treadle.words.clock import now

# A smaller jump changes nothing: it is shorter than any lease, and the time for which a job waits for a tick.
SMALLEST_JUMP = timedelta(seconds=1)


class Reading(NamedTuple):
    """What the server said, and between which times of this machine."""

    server: worker_queries.ServerTime
    began: float
    ended: float


class ServerClock:
    def __init__(self, connection: ReconnectingConnection, worker_id: str, listeners: Listeners) -> None:
        self._connection = connection
        self._worker_id = worker_id
        self._listeners = listeners
        self._last: Reading | None = None
        self._even_since = float("inf")

    async def check(self) -> worker_queries.ServerTime:
        """Read the server's clock. If it has jumped since the last time, this is noted in the database first. The same
        statement says whether a worker is lost, which is all that an idle worker has to know."""
        began = now()
        server = await self._connection.run(worker_queries.get_clock_and_losses())
        this = Reading(server, began, now())
        if self._last is None:
            self._even_since = began
        elif abs(jumped := jump(self._last, this)) > SMALLEST_JUMP:
            before = server.clock - jumped
            await self._connection.run(worker_queries.note_clock_jump(before, server.clock))
            self._even_since = this.ended
            self._listeners.emit(events.ClockJumped(self._worker_id, jumped.total_seconds(), before, server.clock))
        elif server.jumps != self._last.server.jumps:
            # Forward and back again since the last reading, perhaps: others have noticed, this worker cannot.
            self._even_since = this.ended
        self._last = this
        return server

    @property
    def last(self) -> datetime:
        """The last reading."""
        assert self._last is not None  # noqa: S101 - for the type checker
        return self._last.server.clock

    @property
    def watched(self) -> float:
        """For how many seconds the clock has been watched without a jump."""
        return now() - self._even_since


def jump(last: Reading, this: Reading) -> timedelta:
    """By how much the server's clock has jumped, as far as that is certain: readings take some time."""
    passed = this.server.clock - last.server.clock
    least, most = timedelta(seconds=this.began - last.ended), timedelta(seconds=this.ended - last.began)
    return passed - min(max(passed, least), most)
