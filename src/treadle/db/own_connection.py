"""Connections that Treadle opened itself: it may prepare statements on them, and gives up on those without an answer.

A firewall that drops packets, or a proxy whose server is gone, may acknowledge a statement and never answer it. No
setting of TCP ends that wait. PostgreSQL's statement_timeout does not either, because the server's answer is lost; and
behind a pooler in transaction mode it would outlive its statement. So the client gives up, and closes the connection.
"""

import time
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from psycopg import AsyncConnection, Connection, OperationalError
from psycopg.abc import PQGen

T = TypeVar("T")


class NoAnswer(OperationalError):
    """The server did not answer in time. Whether the statement was carried out is unknown."""


class OwnConnection(Connection[Any]):
    """A prepared claim takes a third less time, a prepared enqueue a tenth less. Behind a transaction pooler the next
    statement may run in another session, where the prepared one does not exist. A pooler is detected by comparing
    pg_backend_pid() with the process id that was reported when the connection was opened. This happens before the first
    statement that is worth preparing, not when the pool opens the connection: if the server did not answer, the pool
    would hang, and all its users with it.
    """

    checked = False
    answer_seconds: float | None = None
    """How long a statement may take; None: for ever."""

    def wait(self, gen: PQGen[T], *arguments: Any, **options: Any) -> T:
        if self.answer_seconds is None:
            return super().wait(gen, *arguments, **options)
        try:
            return super().wait(limited(gen, self.answer_seconds), *arguments, **options)
        except NoAnswer:
            self.pgconn.finish()
            raise

    @contextmanager
    def unlimited(self) -> Iterator[None]:
        """For the statements of the caller, which may take as long as they like."""
        seconds, self.answer_seconds = self.answer_seconds, None
        try:
            yield
        finally:
            self.answer_seconds = seconds


class OwnAsyncConnection(AsyncConnection[Any]):
    checked = False
    answer_seconds: float | None = None

    async def wait(self, gen: PQGen[T], *arguments: Any, **options: Any) -> T:
        if self.answer_seconds is None:
            return await super().wait(gen, *arguments, **options)
        try:
            return await super().wait(limited(gen, self.answer_seconds), *arguments, **options)
        except NoAnswer:
            self.pgconn.finish()
            raise

    @asynccontextmanager
    async def unlimited(self) -> AsyncIterator[None]:
        seconds, self.answer_seconds = self.answer_seconds, None
        try:
            yield
        finally:
            self.answer_seconds = seconds


def limited(waiting: PQGen[T], seconds: float) -> Generator[Any, Any, T]:
    """The driver's generator, which is resumed at least every 0.1 s while it waits; ended after this many seconds."""
    end = time.monotonic() + seconds
    try:
        wanted = next(waiting)
        while True:
            ready = yield wanted
            if time.monotonic() > end:
                raise NoAnswer(f"no answer within {seconds:g} seconds")
            wanted = waiting.send(ready)
    except StopIteration as done:
        result: T = done.value
        return result
