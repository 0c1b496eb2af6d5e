"""Connections that Treadle opened itself: it may prepare statements on them, and gives up on those without an answer.

A firewall that drops packets, or a proxy whose server is gone, may acknowledge a statement and never answer it. No
setting of TCP ends that wait. PostgreSQL's statement_timeout does not either, because the server's answer is lost; and
behind a pooler in transaction mode it would outlive its statement. So the client gives up, and closes the connection.
"""

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, TypeVar
from weakref import WeakSet

from psycopg import AsyncConnection, Connection, OperationalError
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from treadle.db.query import Rows

T = TypeVar("T")

# No step of a wait counts for more: see ended_after().
STEP_SECONDS = 0.2
# A statement that runs less often is not worth preparing.
PREPARED_AFTER = 5  # executions

_PARAMETER = re.compile(r"%(?:\((\w+)\)s|%)")


class NoAnswer(OperationalError):
    """The server did not answer in time. Whether the statement was carried out is unknown."""


class PreparedStatements:
    """The statements that a connection runs again and again: prepared once, and sent without one of the driver's
    cursors, which takes half as long again for a short one (docs/decisions/0059-the-ordinary-statement.md). The driver
    still converts parameters and rows, and waits. The connection commits each statement by itself."""

    def __init__(self, connection: Connection[Any] | AsyncConnection[Any]) -> None:
        self._connection = connection
        self._transformer = Transformer(connection)
        self._executed: Counter[bytes] = Counter()
        self._names: dict[tuple[bytes, tuple[int, ...]], bytes] = {}

    def includes(self, text: bytes) -> bool:
        """Whether to run the statement prepared. Asked once for each execution."""
        self._executed[text] += 1
        return self._executed[text] > PREPARED_AFTER

    def run(self, text: bytes, params: Mapping[str, Any]) -> PQGen[Rows]:
        """A generator for the wait() of the connection. Prepares the statement for parameters of these types first."""
        pgconn, transformer = self._connection.pgconn, self._transformer
        numbered, names = _numbered(text)
        values = transformer.dump_sequence([params[name] for name in names], [PyFormat.AUTO] * len(names))
        types = transformer.types or ()
        name = self._names.get((text, types))
        if name is None:
            name = b"treadle_%d" % len(self._names)
            pgconn.send_prepare(name, numbered, param_types=types)
            self._checked((yield from execute(pgconn)))
            self._names[text, types] = name
        pgconn.send_query_prepared(name, values, param_formats=transformer.formats)
        result = self._checked((yield from execute(pgconn)))
        transformer.set_pgresult(result)
        rows = transformer.load_rows(0, result.ntuples, tuple)
        transformer.set_pgresult(None)
        return rows

    def _checked(self, results: list[PGresult]) -> PGresult:
        result = results[-1]
        if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            raise error_from_result(result, encoding=self._connection.info.encoding)
        return result


@lru_cache(256)
def _numbered(text: bytes) -> tuple[bytes, tuple[str, ...]]:
    """The statement with $1, $2 … as PostgreSQL wants them, and the names of these parameters."""
    names: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return f"${names.setdefault(found[1], len(names) + 1)}" if found[1] else "%"

    return _PARAMETER.sub(number, text.decode()).encode(), tuple(names)


# Those of this process. The driver's objects are compared by identity.
_open: WeakSet[Connection[Any] | AsyncConnection[Any]] = WeakSet()


def _leave_to_parent() -> None:
    """A forked child has the same sockets: what it sent would get the parent's answers, and the parent its. Here they
    lead to no server any more. The parent's are unchanged."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for each in list(_open):
        with suppress(OSError, OperationalError):
            os.dup2(nowhere, each.fileno())
    os.close(nowhere)


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_leave_to_parent)


class OwnConnection(Connection[Any]):
    """A prepared claim takes a third less time, a prepared enqueue a tenth less. Behind a transaction pooler the next
    statement may run in another session, where the prepared one does not exist. A pooler is detected by comparing
    pg_backend_pid() with the process id that was reported when the connection was opened. This happens before the first
    statement that is worth preparing, not when the pool opens the connection: if the server did not answer, the pool
    would hang, and all its users with it.
    """

    checked = False
    prepared: PreparedStatements | None = None
    """None: there may be a pooler in between, or it is not known yet (`checked`)."""
    answer_seconds: float | None = None
    """How long a statement may take; None: for ever."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        _open.add(self)

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
    prepared: PreparedStatements | None = None
    answer_seconds: float | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        _open.add(self)

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
