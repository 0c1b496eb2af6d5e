"""Connections that Treadle opened itself: it may prepare statements on them, and gives up on those without an answer.

A firewall that drops packets, or a proxy whose server is gone, may acknowledge a statement and never answer it. No
setting of TCP ends that wait. PostgreSQL's statement_timeout does not either, because the server's answer is lost; and
behind a pooler in transaction mode it would outlive its statement. So the client gives up, and closes the connection.
"""

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from psycopg import AsyncConnection, Connection, OperationalError
from psycopg.abc import PQGen

T = TypeVar("T")

# No step of a wait counts for more: see ended_after().
STEP_SECONDS = 0.2


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
            return super().wait(ended_after(self.answer_seconds, gen), *arguments, **options)
        except NoAnswer:
            self.pgconn.finish()
            raise


class OwnAsyncConnection(AsyncConnection[Any]):
    checked = False
    answer_seconds: float | None = None

    async def wait(self, gen: PQGen[T], *arguments: Any, **options: Any) -> T:
        if self.answer_seconds is None:
            return await super().wait(gen, *arguments, **options)
        try:
            return await super().wait(ended_after(self.answer_seconds, gen), *arguments, **options)
        except NoAnswer:
            self.pgconn.finish()
            raise


def ended_after(seconds: float, waiting: PQGen[T]) -> Generator[Any, Any, T]:
    """The driver's generator, which is resumed at least every 0.1 s while it waits; ended after this many seconds.

    A step that took longer, because something blocked the event loop, counts no more than any other: the answer may
    have been there for long, or be about to arrive."""
    left, before = seconds, time.monotonic()
    try:
        wanted = next(waiting)
        while True:
            ready = yield wanted
            now = time.monotonic()
            left -= min(now - before, STEP_SECONDS)
            before = now
            if not ready and left < 0:
                raise NoAnswer(f"no answer within {seconds:g} seconds")
            wanted = waiting.send(ready)
    except StopIteration as done:
        result: T = done.value
        return result


@contextmanager
def limited(connection: Connection[Any] | AsyncConnection[Any], seconds: float | None) -> Iterator[None]:
    """Within it, a statement may take so long on one of our connections. Those of callers are left alone."""
    if not isinstance(connection, OwnConnection | OwnAsyncConnection):
        yield
        return
    former, connection.answer_seconds = connection.answer_seconds, seconds
    try:
        yield
    finally:
        connection.answer_seconds = former
