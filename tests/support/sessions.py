"""Server sessions that outlive the connections of a test, as behind a session pooler.

A new session reads the system catalogs and plans every function again, which took 25 ms, more than most tests need for
the rest. So a connection of this process to the shared database is closed for its user only: its session is reset, and
the next connection with the same settings continues it.
"""

import os
import select
import threading
from collections import defaultdict
from collections.abc import Generator
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from psycopg import AsyncConnection, Connection, generators, pq
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import ConnStatus, ExecStatus, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn

# Everything of DISCARD ALL but the plans.
RESET = b"""rollback; close all; set session authorization default; reset all; deallocate all; unlisten *;
select pg_advisory_unlock_all(); discard temp; discard sequences"""
# For all settings together. The server has connections for three or four processes that do this.
MOST = 20

Settings = tuple[tuple[str, str], ...]

# What a connection has after it was closed.
CLOSED: PGconn = pq.PGconn.connect_start(b"host=/nowhere")
CLOSED.finish()


class Sessions:
    """The idle sessions of one database."""

    def __init__(self, url: str) -> None:
        self._place = _place(conninfo_to_dict(url))
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._idle: defaultdict[Settings, list[PGconn]] = defaultdict(list)
        self._settings: WeakKeyDictionary[PGconn, Settings] = WeakKeyDictionary()
        self.reuse = True
        """False for a test that needs new sessions."""

    def pids(self) -> list[int]:
        """The processes of the server that serve them."""
        with self._lock:
            return [each.backend_pid for idle in self._idle.values() for each in idle]

    def close(self) -> None:
        with self._lock:
            for idle in self._idle.values():
                while idle:
                    idle.pop().finish()

    def take(self, conninfo: str) -> PGconn | None:
        """An idle session with these settings; None if there is none."""
        settings, name = self._parse(conninfo)
        while settings is not None:
            with self._lock:
                if not self._idle[settings]:
                    return None
                session = self._idle[settings].pop()
            # The server has closed it, or says that it is about to.
            if select.select([session.socket], [], [], 0)[0] or not _run(session, _naming(session, name)):
                session.finish()
                continue
            return session
        return None

    def opened(self, conninfo: str, session: PGconn) -> None:
        """Remember the settings of a new session."""
        settings, _ = self._parse(conninfo)
        if settings is not None:
            self._settings[session] = settings

    def give_back(self, connection: Connection[Any] | AsyncConnection[Any]) -> bool:
        """Keep the session of a connection that is being closed. False if that is not possible."""
        session = connection.pgconn
        settings = self._settings.get(session)
        if settings is None or not self.reuse or connection.lock.locked() or not _is_usable(session):
            return False
        session.notice_handler = session.notify_handler = None
        session.nonblocking = 0
        if not _run(session, RESET):
            return False
        while session.notifies():
            pass
        with self._lock:
            if sum(map(len, self._idle.values())) == MOST:
                return False
            connection.pgconn, connection._closed = CLOSED, True
            self._idle[settings].append(session)
        return True

    def _parse(self, conninfo: str) -> tuple[Settings | None, str]:
        """What a session must have been opened with, and the name that can be changed later."""
        given = conninfo_to_dict(conninfo)
        name = str(given.pop("application_name", ""))
        # Not through a proxy, which may be silent.
        if not self.reuse or _place(given) != self._place or os.getpid() != self._process:
            return None, name
        return tuple(sorted((key, str(value)) for key, value in given.items())), name


def continue_sessions(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make psycopg use them."""
    connect, close, aclose = generators.connect, Connection.close, AsyncConnection.close

    def connect_or_continue(conninfo: str, **options: Any) -> Generator[Any, Any, PGconn]:
        session = sessions.take(conninfo)
        if session is None:
            session = yield from connect(conninfo, **options)
            sessions.opened(conninfo, session)
        session.nonblocking = 1
        return session

    def close_or_give_back(self: Connection[Any]) -> None:
        if self.closed or not sessions.give_back(self):
            close(self)

    async def aclose_or_give_back(self: AsyncConnection[Any]) -> None:
        if self.closed or not sessions.give_back(self):
            await aclose(self)

    monkeypatch.setattr(generators, "connect", connect_or_continue)
    monkeypatch.setattr(Connection, "close", close_or_give_back)
    monkeypatch.setattr(AsyncConnection, "close", aclose_or_give_back)


def _place(given: dict[str, Any]) -> list[str]:
    return [str(given.get(name)) for name in ("host", "port", "dbname")]


def _is_usable(session: PGconn) -> bool:
    idle = (TransactionStatus.IDLE, TransactionStatus.INTRANS, TransactionStatus.INERROR)
    return (
        session.status == ConnStatus.OK
        and session.transaction_status in idle
        and session.pipeline_status == PipelineStatus.OFF
    )


def _naming(session: PGconn, name: str) -> bytes:
    if session.parameter_status(b"application_name") == name.encode():
        return b""
    quoted = name.replace("'", "''")
    return f"set application_name = '{quoted}'".encode()


def _run(session: PGconn, statements: bytes) -> bool:
    if not statements:
        return True
    return session.exec_(statements).status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
