"""Receives notifications on a connection of its own, and reconnects when that connection breaks.

Notifications are hints. They may stop without an error: through a pooler LISTEN succeeds and nothing ever arrives, and
a half-open connection shows no error for about 15 minutes. So the owner sends probes: `works` is true only if the last
one arrived.
"""

import asyncio
from collections.abc import Callable

import psycopg
from psycopg import sql

from treadle.db.own_connection import OwnAsyncConnection
from treadle.db.queries import worker as worker_queries
from treadle.db.query import Query, Result
from treadle.db.reconnecting import UNAVAILABLE, Abandonable, DatabaseUnavailable, open_connection, reconnect_delay
from treadle.db.runner import arun
from treadle.db.url import CONNECT_SECONDS, hosts

# How long a query may take.
ANSWER_SECONDS = 10.0


class NotificationListener:
    def __init__(self, url: str, schema: str, kind: str, received: Callable[[str], None], name: str) -> None:
        self._url = url
        self._schema = schema
        self._kind = kind
        self._name = name
        self._connection: OwnAsyncConnection | None = None
        self._seconds = 5 + CONNECT_SECONDS * hosts(url)
        self._ended = asyncio.Event()
        self.received = received
        self.listening = asyncio.Event()
        self.works = False
        self.lost: Callable[[], None] = lambda: None
        """Called when the connection has ended."""

    async def run(self) -> None:
        """Listen until cancelled."""
        failures = 0
        while True:
            try:
                # Not wait_for(): before Python 3.12 it loses a cancellation that arrives together with the connection,
                # and a worker that is stopped at that moment would listen forever.
                async with asyncio.timeout(self._seconds):
                    self._connection = await open_connection(self._url, self._name, kind=Abandonable)
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
                self.lost()

    def reset(self) -> None:
        """Reconnect: a probe did not arrive."""
        self._ended.set()

    async def ask(self, query: Query[Result]) -> Result:
        """Run a query on the connection that listens. A reply shows that notifications can arrive; without one, the
        listener reconnects. Only one query at a time."""
        connection = self._connection
        if connection is None or not self.listening.is_set():
            raise DatabaseUnavailable("not connected")
        connection.answer_seconds = ANSWER_SECONDS
        try:
            asyncio.get_running_loop().remove_reader(connection.fileno())
            found = await arun(connection, query, self._schema)
        except BaseException as error:
            self.reset()
            if isinstance(error, UNAVAILABLE):
                raise DatabaseUnavailable(str(error)) from error
            raise
        self._read_from(connection)
        return found

    async def _receive(self, connection: OwnAsyncConnection) -> None:
        """Until a reset. The connection is read as soon as there is something to read: waiting for each notification
        with the driver's notifies() takes four times as long, and every worker receives each of them."""
        self._ended.clear()
        self._read_from(connection)
        try:
            await self._ended.wait()
        finally:
            if not connection.closed:
                asyncio.get_running_loop().remove_reader(connection.fileno())
        if connection.broken:
            raise psycopg.OperationalError("the connection was closed")

    def _read_from(self, connection: OwnAsyncConnection) -> None:
        loop, descriptor, pgconn = asyncio.get_running_loop(), connection.fileno(), connection.pgconn

        def read() -> None:
            try:
                pgconn.consume_input()
            except psycopg.Error:
                loop.remove_reader(descriptor)
                self._ended.set()
            while notification := pgconn.notifies():
                self.received(notification.extra.decode(errors="replace"))

        loop.add_reader(descriptor, read)
        read()  # what the driver has received and not yet looked at
