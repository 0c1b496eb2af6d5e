"""How many jobs a worker runs at once: its option, or what an operator has set since (treadle.set_concurrency).

A worker without jobs gets the number with the reply when it asks for the next due job, about once a second, and sends
no statement of its own. A notification makes it ask at once.
"""

import asyncio
import time
from collections.abc import Callable

from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import ReconnectingConnection
from treadle.worker.services import Delay

# A worker that has not asked for the next due job for this long asks for the number alone: it is full, or its claims
# find as many jobs as they want.
CHECK_SECONDS = 2.0


class Concurrency:
    def __init__(
        self,
        connection: ReconnectingConnection,
        worker_id: str,
        option: int,
        poll: Callable[[], float],
        changed: Callable[[int, int], None],
    ) -> None:
        """`poll` says how long the worker waits before it asks for the next due job; `changed` is called with the new
        and the former number. The connection is that of the claims: replies arrive in order, so that an old one cannot
        undo a change."""
        self.current = option
        self._connection = connection
        self._worker_id = worker_id
        self._option = option
        self._changed = changed
        self._poll = poll
        self._heard_at = time.monotonic()
        self._notified = False
        self.wake = asyncio.Event()

    def notified(self) -> None:
        """An operator has changed the number. Any session can send this notification: the database is asked."""
        self._notified = True
        self.wake.set()

    def heard(self, number: int | None) -> None:
        """What the database says; None: nothing was set."""
        self._heard_at = time.monotonic()
        former, self.current = self.current, self._option if number is None else number
        if self.current != former:
            self._changed(self.current, former)

    async def check(self) -> Delay:
        """Ask the database, unless a reply has just said it."""
        # Of a worker that polls less often, the polls say it: it relies on its notifications in the meantime.
        every = max(CHECK_SECONDS, 1.2 * self._poll())
        left = self._heard_at + every - time.monotonic()
        if left > 0 and not self._notified:
            return Delay(max(0.1, left))
        self._notified = False
        self.heard(await self._connection.run(worker_queries.get_concurrency(self._worker_id)))
        return Delay(every)
