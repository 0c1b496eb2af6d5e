"""Receives notifications on a connection of its own, and reconnects when that connection breaks.

Notifications are hints. They may stop without an error: through a pooler LISTEN succeeds and nothing ever arrives, and
a half-open connection shows no error for about 15 minutes. So the owner sends probes: `works` is true only if the last
one arrived.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from psycopg import AsyncConnection, sql

from treadle.db.queries import worker as worker_queries
from treadle.db.reconnecting import UNAVAILABLE, open_connection, reconnect_delay
from treadle.db.runner import arun
from treadle.db.url import CONNECT_SECONDS, hosts


class Listener:
    def __init__(self, url: str, schema: str, kind: str, received: Callable[[str], None], name: str) -> None:
        self._url = url
        self._schema = schema
        self._kind = kind
        self._name = name
        self._connection: AsyncConnection[Any] | None = None
        self._seconds = 5 + CONNECT_SECONDS * hosts(url)
        self._reset = False
        self.received = received
        self.listening = asyncio.Event()
        self.works = False

    async def run(self) -> None:
        """Listen until cancelled."""
        failures = 0
        while True:
            try:
                # Not wait_for(): before Python 3.12 it loses a cancellation that arrives together with the connection,
                # and a worker that is stopped at that moment would listen forever.
                async with asyncio.timeout(self._seconds):
                    self._connection = await open_connection(self._url, self._name)
                channel = await arun(self._connection, worker_queries.get_channel(self._kind), self._schema)
                await self._connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
                self.listening.set()
                failures = 0
                await self._receive(self._connection)
            except (*UNAVAILABLE, TimeoutError):
                failures += 1
                await asyncio.sleep(reconnect_delay(failures))
            finally:
                self.listening.clear()
                self.works = False
                if self._connection is not None:
                    self._connection.pgconn.finish()
                    self._connection = None

    def reset(self) -> None:
        """Reconnect: a probe did not arrive."""
        self._reset = True

    async def _receive(self, connection: AsyncConnection[Any]) -> None:
        self._reset = False
        while not self._reset:
            # With a timeout, so that a reset is noticed.
            async for notification in connection.notifies(timeout=1):
                self.received(notification.payload)
