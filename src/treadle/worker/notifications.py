"""The notifications that a worker receives, and the probes that check whether they arrive."""

import asyncio
import contextlib
from collections.abc import Callable
from uuid import UUID

from treadle.db.listener import Listener
from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import ReconnectingConnection
from treadle.worker.services import Delay

PROBE_SECONDS = 15.0
# How long a probe may take to arrive, and how long a listener to reconnect.
ARRIVE_SECONDS = 2.0
RECONNECT_SECONDS = 3.0


class Notifications:
    def __init__(
        self,
        url: str,
        schema: str,
        name: str,
        worker_id: str,
        connection: ReconnectingConnection,
        wake: Callable[[], None],
        cancel: Callable[[UUID], None],
    ) -> None:
        """`wake` is called when there may be jobs to claim, `cancel` when a job was cancelled that may run here. The
        connection is for sending probes."""
        self.listener = Listener(url, schema, "work", self.received, name)
        self._worker_id = worker_id
        self._connection = connection
        self._wake = wake
        self._cancel = cancel
        self.probe_now = asyncio.Event()
        self.probe_now.set()

    def received(self, message: str) -> None:
        """Handle a notification. Any session may send one: unknown messages are ignored."""
        if not message:
            self._wake()
            return
        word, _, subject = message.partition(" ")
        if word == "cancelled":
            with contextlib.suppress(ValueError):
                self._cancel(UUID(subject))
        elif word == "probe" and subject == self._worker_id:
            self.listener.works = True

    async def probe(self) -> Delay:
        """Check whether notifications arrive; if they do not, the listener reconnects."""
        await self.listener.listening.wait()
        self.listener.works = False
        await self._connection.run(worker_queries.notify_workers(f"probe {self._worker_id}"))
        await asyncio.sleep(ARRIVE_SECONDS)
        if self.listener.works:
            return Delay(PROBE_SECONDS)
        self.listener.reset()
        return Delay(RECONNECT_SECONDS)
