"""Examines databases that have problems."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
from psycopg import Connection

from tests.support.workers import one, until
from treadle import Treadle
from treadle.db.examination import examination, receives_notifications
from treadle.db.query import QueryFailed
from treadle.db.script import drive
from treadle.doctor import Finding, Limits, Severity
from treadle.doctor.examine import (
    BLOCKED_SECONDS,
    SCHEMA,
    SERVER,
    VERSION,
    Impatient,
    NotificationTest,
    Request,
    examination_steps,
    examine,
)
from treadle.doctor.queries import schema_queries, server_queries

SETTINGS = {
    "fsync": "off",
    "max_connections": "20",
    "max_prepared_transactions": "5",
    "wal_level": "logical",
    "max_notify_queue_pages": "64",
    "autovacuum_max_workers": "1",
    "autovacuum_naptime": "1s",
}
UNNEEDED = QueryFailed("not needed", permission_denied=False, timed_out=False)
# Limits so low that every problem is reported at once.
AT_ONCE = Limits(
    idle_snapshot=(0, 0.001, 3600),
    busy_snapshot=(0, 0.001, 3600),
    held_transactions=(1, 10, 1000),
    prepared=(0, 0.001, 3600),
    slot_bytes=(1, 10, 100 << 30),
    dead_rows=500,
    vacuum_lag=0,
    vacuum_busy=0,
    index_bytes=100 << 10,
    silence=0,
    client_silence=0,
    unserved=(0, 0.001),
    paused=(0, 0.001),
    stalled=(0, 0.001),
    tick=0.5,
    failing_key=(0, 0.001),
    late_schedule=(0, 0.001),
    lowered_limit=(0, 0.001),
    unopened=(0, 0.001),
)


def findings(url: str, limits: Limits | None = None, schema: str = "treadle") -> dict[str, Finding]:
    """The findings of an examination, by name. Each name must be unique."""
    app = Treadle(url, schema=schema)
    try:
        found = examine(app.database, limits)
    finally:
        app.close()
    by_name = {each.name: each for each in found}
    assert len(by_name) == len(found)
    return by_name


def get_finding(url: str, name: str, limits: Limits | None = None) -> Finding:
    """One finding, by an examination that runs only the queries it needs: all of them take five times as long."""
    limits = limits or Limits()
    (check,) = (each for each in (VERSION, *SERVER, *SCHEMA) if name in each.names)
    known = {**server_queries(), **schema_queries(limits)}
    unneeded = {known[fact].text for fact in known.keys() - {"server", *check.needs}}
    app = Treadle(url)
    try:
        with examination(app.database) as run:

            def carry_out(request: Request) -> Any:
                if isinstance(request, NotificationTest):
                    return receives_notifications(app.database) if name == "listen" else UNNEEDED
                lock_seconds = {"lock_seconds": BLOCKED_SECONDS} if isinstance(request, Impatient) else {}
                query = request.query if isinstance(request, Impatient) else request
                return UNNEEDED if query.text in unneeded else run(query, **lock_seconds)

            found = drive(examination_steps(app.schema, limits), carry_out)
    finally:
        app.close()
    (finding,) = (each for each in found if each.name == name)
    return finding


def assert_ok(url: str, name: str, limits: Limits | None = None) -> None:
    found = get_finding(url, name, limits)
    assert found.level is Severity.OK, found


@contextmanager
def connected(url: str, **options: Any) -> Iterator[Connection[Any]]:
    with psycopg.connect(url, autocommit=True, options="-c search_path=treadle,public", **options) as connection:
        yield connection


@contextmanager
def server_settings(url: str, **settings: str) -> Iterator[None]:
    """Change settings of the server for the duration of the block."""
    with connected(url) as connection:
        before = {name: one(connection, "select reset_val from pg_settings where name = %s", name) for name in settings}
        for name, value in settings.items():
            connection.execute(f"alter system set {name} = '{value}'")
        _reload(connection, settings)
        try:
            yield
        finally:
            for name in settings:
                connection.execute(f"alter system reset {name}")
            _reload(connection, before)


def _reload(connection: Connection[Any], expected: dict[str, str]) -> None:
    connection.execute("select pg_reload_conf()")
    for name, value in expected.items():
        until(partial(_has, connection, name, value), partial(str, name))


def _has(connection: Connection[Any], name: str, value: str) -> bool:
    return bool(one(connection, "select reset_val from pg_settings where name = %s", name) == value)
