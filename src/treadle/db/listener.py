"""Receives notifications on a connection of its own, and reconnects when that connection breaks.

Notifications are hints. They may stop without an error: through a pooler LISTEN succeeds and nothing ever arrives, and
a half-open connection shows no error for about 15 minutes. So the owner sends probes: `works` is true only if the last
one arrived.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
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
                # Those that arrive together with the answer to "listen".
                self._connection.add_notify_handler(lambda notification: self.received(notification.payload))
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
        """Until a reset. The connection is read as soon as there is something to read: waiting for each notification
        with the driver's notifies() takes four times as long, and every worker receives each of them."""
        loop, broken = asyncio.get_running_loop(), asyncio.Event()
        descriptor, pgconn = connection.fileno(), connection.pgconn

        def read() -> None:
            try:
                pgconn.consume_input()
            except psycopg.Error:
                loop.remove_reader(descriptor)
                broken.set()
            while notification := pgconn.notifies():
                self.received(notification.extra.decode(errors="replace"))

        self._reset = False
        loop.add_reader(descriptor, read)
        read()  # what the driver has received and not yet looked at
        try:
            while not self._reset and not broken.is_set():
                # With a timeout, so that a reset is noticed.
                with suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await broken.wait()
        finally:
            loop.remove_reader(descriptor)
        if broken.is_set():
            raise psycopg.OperationalError("the connection was closed")
