"""Hears notifications on a connection of its own, and comes back when that breaks.

Notifications are hints. A listener may be deaf without knowing it: through a pooler LISTEN succeeds and nothing ever
arrives, and a half-open connection is silent for a quarter of an hour. So somebody has to send it a probe now and then;
`hearing` is true only if the last one came through.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from psycopg import AsyncConnection, sql

from treadle.db import work
from treadle.db.line import AWAY, open_connection, pause
from treadle.db.runner import arun
from treadle.db.url import CONNECT_SECONDS, hosts


class Listener:
    def __init__(self, url: str, schema: str, kind: str, heard: Callable[[str], None], name: str) -> None:
        self._url = url
        self._schema = schema
        self._kind = kind
        self._heard = heard
        self._name = name
        self._connection: AsyncConnection[Any] | None = None
        self._seconds = 5 + CONNECT_SECONDS * hosts(url)
        self._reset = False
        self.listening = asyncio.Event()
        self.hearing = False

    async def run(self) -> None:
        """Listen until cancelled."""
        failures = 0
        while True:
            try:
                # Not wait_for(): before Python 3.12 it loses a cancellation that comes together with the connection,
                # and a worker that is stopped just then would listen for ever.
                async with asyncio.timeout(self._seconds):
                    self._connection = await open_connection(self._url, self._name)
                channel = await arun(self._connection, work.channel(self._schema, self._kind))
                await self._connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
                self.listening.set()
                failures = 0
                await self._hear(self._connection)
            except (*AWAY, TimeoutError):
                failures += 1
                await asyncio.sleep(pause(failures))
            finally:
                self.listening.clear()
                self.hearing = False
                if self._connection is not None:
                    self._connection.pgconn.finish()
                    self._connection = None

    def reset(self) -> None:
        """Connect anew: a probe did not come through."""
        self._reset = True

    async def _hear(self, connection: AsyncConnection[Any]) -> None:
        self._reset = False
        while not self._reset:
            # Looked up now and then, so that a reset is noticed.
            async for notification in connection.notifies(timeout=1):
                self._heard(notification.payload)
