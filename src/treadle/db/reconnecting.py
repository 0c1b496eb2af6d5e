"""One connection that reconnects, for parts that keep running while the database is unavailable.

A statement that takes longer than its timeout is abandoned together with its connection: a half-open connection would
block its user for about 15 minutes. Whether the statement was carried out is then unknown, and the caller has to cope.
Connecting gets a timeout of its own at each host of the URL, because the first of two hosts may not respond at all.
"""

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import wait_async

from treadle.db.own_connection import NoAnswer, OwnAsyncConnection, ended_after
from treadle.db.queries import refusals
from treadle.db.query import Query, Result
from treadle.db.runner import arun
from treadle.db.url import CONNECT_SECONDS, hosts, patient
from treadle.words.errors import TreadleError
from treadle.words.refusal import SECONDS as REFUSAL_SECONDS
from treadle.words.refusal import Refusal

STATEMENT_SECONDS = 10.0
# How often a statement that takes long is checked.
CHECK_SECONDS = 0.1

# How long the server is given to cancel what was abandoned.
CANCEL_SECONDS = 1.0

# The server rejects the values in the statement: trying again would not help. All other errors may pass: a lost
# connection, a failover to a standby that is still read-only, a function that a migration is just replacing.
REFUSED = (psycopg.DataError, psycopg.IntegrityError)
UNAVAILABLE = (psycopg.Error, OSError)
# The server answers, and cannot write.
REFUSALS: dict[type[psycopg.Error], Refusal] = {
    psycopg.errors.DiskFull: Refusal.DISK_FULL,
    psycopg.errors.OutOfMemory: Refusal.OUT_OF_MEMORY,
    psycopg.errors.IoError: Refusal.IO_ERROR,
}

T = TypeVar("T")


class DatabaseUnavailable(TreadleError):
    """The statement failed; it may or may not have been carried out."""


class RowLocked(TreadleError):
    """Nothing was carried out: another transaction has locked a row, and the statement waits only briefly."""


class StatementCancelled(DatabaseUnavailable):
    """Nothing was carried out: the statement took longer than the role's statement_timeout, or was cancelled."""


class Unanswered(DatabaseUnavailable):
    """The server did not answer in time."""


class WriteRefused(DatabaseUnavailable):
    """Nothing was carried out: the server cannot write."""

    def __init__(self, refusal: Refusal, error: psycopg.Error) -> None:
        super().__init__(f"{refusal.sentence} ({_in_one_line(error)})")
        self.refusal = refusal


class Abandonable(OwnAsyncConnection):
    """A cancelled statement ends at once. The driver would first wait for the server to cancel it, and the server may
    not respond: see ReconnectingConnection."""

    async def wait(self, gen: PQGen[T], interval: float = CHECK_SECONDS, *_: Any, **__: Any) -> T:
        waiting = gen if self.answer_seconds is None else ended_after(self.answer_seconds, gen)
        return await wait_async(waiting, self.pgconn.socket, interval)


async def open_connection(
    url: str, name: str, seconds: int = CONNECT_SECONDS, kind: type[OwnAsyncConnection] = OwnAsyncConnection
) -> OwnAsyncConnection:
    """Open an autocommit connection; each host of the URL is tried for this many seconds."""
    return await kind.connect(patient(url, seconds), autocommit=True, prepare_threshold=None, application_name=name)


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
        self._connection: OwnAsyncConnection | None = None
        self._abandoned: set[asyncio.Task[Any]] = set()
        self._refused_at: float | None = None  # while the name of the session says so
        self.lock = asyncio.Lock()
        """Held while a query runs."""

    async def run(self, query: Query[Result]) -> Result:
        async with self.lock:
            # Not in a task of its own, which would take a fifth of the time of a short statement.
            try:
                return await self._run(query)
            except asyncio.CancelledError:
                self._abandon()
                raise
            except NoAnswer as error:
                self._abandon()
                raise Unanswered(str(error)) from error
            except REFUSED:
                raise
            except psycopg.errors.LockNotAvailable as error:
                raise RowLocked(str(error)) from error
            except psycopg.errors.QueryCanceled as error:
                raise StatementCancelled(str(error)) from error
            except UNAVAILABLE as error:
                await self.disconnect()
                raise DatabaseUnavailable(_in_one_line(error)) from error

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
            await asyncio.wait(self._abandoned, timeout=CANCEL_SECONDS)
        for work in self._abandoned:
            work.cancel()

    async def _run(self, query: Query[Result]) -> Result:
        if self._connection is None or self._connection.closed:
            self._connection, self._refused_at = await self._open(), None
        try:
            result = await arun(self._connection, query, self._schema)
        except tuple(REFUSALS) as error:
            # The connection is as good as before.
            refusal = REFUSALS[type(error)]
            await arun(self._connection, refusals.show(refusal, self._name), self._schema)
            self._refused_at = time.monotonic()
            raise WriteRefused(refusal, error) from error
        if self._refused_at is not None and time.monotonic() - self._refused_at > REFUSAL_SECONDS:
            await arun(self._connection, refusals.take_back(self._name), self._schema)
            self._refused_at = None
        return result

    async def _open(self) -> OwnAsyncConnection:
        try:
            async with asyncio.timeout(self._timeout + self._connect_timeout * self._hosts):
                connection = await open_connection(self._url, self._name, self._connect_timeout, Abandonable)
        except TimeoutError:
            raise DatabaseUnavailable("could not connect in time") from None
        connection.answer_seconds = self._timeout
        return connection

    def _abandon(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            # Not awaited: the server may not respond.
            work = asyncio.create_task(_cancel(connection))
            self._abandoned.add(work)
            work.add_done_callback(self._abandoned.discard)


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


async def _cancel(connection: OwnAsyncConnection) -> None:
    """Ask the server to cancel the statement, and close the connection."""
    try:
        with suppress(psycopg.Error, OSError):
            await connection.cancel_safe(timeout=CANCEL_SECONDS)
    finally:
        connection.pgconn.finish()


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
