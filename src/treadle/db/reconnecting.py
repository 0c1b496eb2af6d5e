"""One connection that comes back: for those who keep running while the database goes away.

A statement that takes longer than its patience is given up, and so is its connection: a half-open one would keep its
user waiting for a quarter of an hour. Whether it was carried out is then unknown; whoever uses a line has to cope.
To connect may take its time at each host besides: the first of two may be silent, and who has no patience for that
never gets to the second.
"""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import AsyncConnection

from treadle.db.query import Query, Result
from treadle.db.runner import OwnAsyncConnection, arun
from treadle.db.url import CONNECT_SECONDS, hosts, patient
from treadle.words.errors import TreadleError

PATIENCE = 10.0

# What the server refuses because of the values in it: trying again would not help. Everything else may pass: a lost
# connection, a failover to a standby that cannot be written to, a function that a migration is just replacing.
REFUSED = (psycopg.DataError, psycopg.IntegrityError)
AWAY = (psycopg.Error, OSError)


class DatabaseAway(TreadleError):
    """The statement may or may not have been carried out."""


class RowLocked(TreadleError):
    """Nothing was carried out: somebody holds a row, and the statement does not wait for long."""


async def open_connection(url: str, name: str, seconds: int = CONNECT_SECONDS) -> AsyncConnection[Any]:
    """An autocommit connection, tried for so many seconds at each host of the URL."""
    return await OwnAsyncConnection.connect(
        patient(url, seconds), autocommit=True, prepare_threshold=None, application_name=name
    )


def pause(failures: int) -> float:
    """Seconds to wait after the nth failure in a row: with full jitter, so that a hundred workers do not come back at
    once, and never long, so that they come back soon."""
    return random.uniform(0.05, min(2.0, 0.1 * 2 ** min(failures, 10)))  # noqa: S311 - jitter, not a secret


class Line:
    """Runs one query at a time; connects when it has to. Raises DatabaseAway, and is as good as new after that."""

    def __init__(
        self, url: str, schema: str, name: str, patience: float = PATIENCE, connect_seconds: int = CONNECT_SECONDS
    ) -> None:
        self._url = url
        self._schema = schema
        self._name = name
        self._patience = patience
        self._connect_seconds = connect_seconds
        self._hosts = hosts(url)
        self._connection: AsyncConnection[Any] | None = None
        self._turn = asyncio.Lock()
        self._abandoned: set[asyncio.Task[Any]] = set()

    async def run(self, query: Query[Result]) -> Result:
        async with self._turn:
            patience = self._patience
            if self._connection is None or self._connection.closed:
                patience += self._connect_seconds * self._hosts
            work = asyncio.ensure_future(self._run(query))
            try:
                done, _ = await asyncio.wait({work}, timeout=patience)
            except asyncio.CancelledError:
                self._abandon(work)
                raise
            if not done:
                self._abandon(work)
                raise DatabaseAway(f"no answer within {patience:g} seconds")
            try:
                return work.result()
            except REFUSED:
                raise
            except psycopg.errors.LockNotAvailable as error:
                raise RowLocked(str(error)) from error
            except AWAY as error:
                await self.hang_up()
                raise DatabaseAway(" ".join(str(error).split()) or type(error).__name__) from error

    async def persist(self, query: Query[Result], failed: Callable[[DatabaseAway], None] = lambda _: None) -> Result:
        """Run it until it succeeds. Only for what may be carried out twice."""
        failures = 0
        while True:
            try:
                return await self.run(query)
            except DatabaseAway as error:
                failed(error)
                failures += 1
                await asyncio.sleep(pause(failures))

    async def hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def close(self) -> None:
        await self.hang_up()
        for work in self._abandoned:
            work.cancel()

    async def _run(self, query: Query[Result]) -> Result:
        if self._connection is None or self._connection.closed:
            self._connection = await open_connection(self._url, self._name, self._connect_seconds)
        return await arun(self._connection, query, self._schema)

    def _abandon(self, work: asyncio.Task[Any]) -> None:
        # Not awaited: the driver first tries to cancel the statement at the server, which may be as deaf.
        connection, self._connection = self._connection, None
        work.cancel()
        self._abandoned.add(work)

        def buried(work: asyncio.Task[Any]) -> None:
            self._abandoned.discard(work)
            if connection is not None:
                connection.pgconn.finish()
            if not work.cancelled():
                work.exception()

        work.add_done_callback(buried)


class Silence:
    """How long statements have been failing, to be told once when it begins and once when it ends."""

    def __init__(self) -> None:
        self._since: float | None = None

    def broken(self) -> bool:
        """Whether this failure is the first."""
        first = self._since is None
        if first:
            self._since = time.monotonic()
        return first

    def mended(self) -> float | None:
        """How long it lasted, if it had been broken."""
        since, self._since = self._since, None
        return None if since is None else time.monotonic() - since
