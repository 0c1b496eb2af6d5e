"""One connection that reconnects, for parts that keep running while the database is unavailable.

A statement that takes longer than its timeout is abandoned together with its connection: a half-open connection would
block its user for about 15 minutes. Whether the statement was carried out is then unknown, and the caller has to cope.
Connecting gets a timeout of its own at each host of the URL, because the first of two hosts may not respond at all.
"""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import AsyncConnection

from treadle.db.own_connection import OwnAsyncConnection
from treadle.db.query import Query, Result
from treadle.db.runner import arun
from treadle.db.url import CONNECT_SECONDS, hosts, patient
from treadle.words.errors import TreadleError

STATEMENT_SECONDS = 10.0

# Statements are waited for in steps. One that took longer, because something blocked the event loop, counts no more
# than any other: the answer may have been there for long.
STEP_SECONDS = 1.0
LATE_SECONDS = 0.1

# How long close() waits for the server to cancel what was abandoned.
CANCEL_SECONDS = 1.0

# The server rejects the values in the statement: trying again would not help. All other errors may pass: a lost
# connection, a failover to a standby that is still read-only, a function that a migration is just replacing.
REFUSED = (psycopg.DataError, psycopg.IntegrityError)
UNAVAILABLE = (psycopg.Error, OSError)


class DatabaseUnavailable(TreadleError):
    """The statement failed; it may or may not have been carried out."""


class RowLocked(TreadleError):
    """Nothing was carried out: another transaction has locked a row, and the statement waits only briefly."""


class StatementCancelled(DatabaseUnavailable):
    """Nothing was carried out: the statement took longer than the role's statement_timeout, or was cancelled."""


async def open_connection(url: str, name: str, seconds: int = CONNECT_SECONDS) -> AsyncConnection[Any]:
    """Open an autocommit connection; each host of the URL is tried for this many seconds."""
    return await OwnAsyncConnection.connect(
        patient(url, seconds), autocommit=True, prepare_threshold=None, application_name=name
    )


def reconnect_delay(failures: int) -> float:
    """Seconds to wait after this many failures in a row: exponential with full jitter, so that a hundred workers do not
    reconnect at once, and at most 2 s, so that they resume soon after an outage."""
    return random.uniform(0.05, min(2.0, 0.1 * 2 ** min(failures, 10)))  # noqa: S311 - jitter, not a secret


class ReconnectingConnection:
    """Runs one query at a time and connects when necessary. After DatabaseUnavailable it can be used again."""

    def __init__(
        self, url: str, schema: str, name: str, timeout: float | None = None, connect_timeout: int = CONNECT_SECONDS
    ) -> None:
        self._url = url
        self._schema = schema
        self._name = name
        self._timeout = STATEMENT_SECONDS if timeout is None else timeout
        self._connect_timeout = connect_timeout
        self._hosts = hosts(url)
        self._connection: AsyncConnection[Any] | None = None
        self._abandoned: set[asyncio.Task[Any]] = set()
        self.lock = asyncio.Lock()
        """Held while a query runs."""

    async def run(self, query: Query[Result]) -> Result:
        async with self.lock:
            timeout = self._timeout
            if self._connection is None or self._connection.closed:
                timeout += self._connect_timeout * self._hosts
            work = asyncio.ensure_future(self._run(query))
            try:
                done = await _finishes(work, timeout)
            except asyncio.CancelledError:
                self._abandon(work)
                raise
            if not done:
                self._abandon(work)
                raise DatabaseUnavailable(f"no response within {timeout:g} seconds")
            try:
                return work.result()
            except REFUSED:
                raise
            except psycopg.errors.LockNotAvailable as error:
                raise RowLocked(str(error)) from error
            except psycopg.errors.QueryCanceled as error:
                raise StatementCancelled(str(error)) from error
            except UNAVAILABLE as error:
                await self.disconnect()
                raise DatabaseUnavailable(" ".join(str(error).split()) or type(error).__name__) from error

    async def persist(
        self, query: Query[Result], failed: Callable[[DatabaseUnavailable], None] = lambda _: None
    ) -> Result:
        """Run the query until it succeeds. Only for queries that may be carried out twice."""
        failures = 0
        while True:
            try:
                return await self.run(query)
            except RowLocked:
                failures += 1
                await asyncio.sleep(reconnect_delay(failures))
            except DatabaseUnavailable as error:
                failed(error)
                failures += 1
                await asyncio.sleep(reconnect_delay(failures))

    async def disconnect(self) -> None:
        """Close the connection; the next query opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def close(self) -> None:
        await self.disconnect()
        if self._abandoned:
            # The driver logs a warning if it is cancelled again while it waits for the server to cancel a statement.
            await asyncio.wait(self._abandoned, timeout=CANCEL_SECONDS)
        for work in self._abandoned:
            work.cancel()

    async def _run(self, query: Query[Result]) -> Result:
        if self._connection is None or self._connection.closed:
            self._connection = await open_connection(self._url, self._name, self._connect_timeout)
        return await arun(self._connection, query, self._schema)

    def _abandon(self, work: asyncio.Task[Any]) -> None:
        # Not awaited: the driver first asks the server to cancel the statement, and the server may not respond.
        connection, self._connection = self._connection, None
        work.cancel()
        self._abandoned.add(work)

        def finish(work: asyncio.Task[Any]) -> None:
            self._abandoned.discard(work)
            if connection is not None:
                connection.pgconn.finish()
            if not work.cancelled():
                work.exception()

        work.add_done_callback(finish)


async def _finishes(work: asyncio.Task[Any], timeout: float) -> bool:
    """Whether it finishes within so many seconds in which the event loop ran."""
    left, late = timeout, False
    while left > 0 or late:
        step, began = min(left, STEP_SECONDS) if left > 0 else STEP_SECONDS, time.monotonic()
        if (await asyncio.wait({work}, timeout=step))[0]:
            return True
        late = left > 0 and time.monotonic() - began > step + LATE_SECONDS
        left -= step
    return False


class Outage:
    """A period of failing statements: when it began, and when a statement failed last."""

    def __init__(self) -> None:
        self._began: float | None = None
        self.last_failure = float("-inf")
        """By time.monotonic."""

    def failed(self) -> bool:
        """A statement failed. Returns True if that begins an outage."""
        self.last_failure = time.monotonic()
        if self._began is not None:
            return False
        self._began = self.last_failure
        return True

    def succeeded(self) -> float | None:
        """A statement succeeded. Returns how long the outage lasted that this ends, or None if there was none."""
        began, self._began = self._began, None
        return None if began is None else time.monotonic() - began

    def is_over_for(self, seconds: float) -> bool:
        """Whether no statement has failed for this long."""
        return time.monotonic() - self.last_failure > seconds
