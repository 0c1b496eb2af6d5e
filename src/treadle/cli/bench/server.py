"""Measures the server: a round trip, a commit, and the settings that matter to a queue."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

from treadle.db.database import Database
from treadle.db.examination import receives_notifications
from treadle.db.query import in_schema
from treadle.db.setup_connection import connect
from treadle.db.url import described

SETTINGS = (
    "synchronous_commit",
    "synchronous_standby_names",
    "fsync",
    "shared_buffers",
    "autovacuum",
    "max_connections",
)
LOCAL = ("", "localhost", "127.0.0.1", "::1")
TRIPS, COMMITS = 200, 100
# The limit for each measurement: a distant server is measured with fewer statements.
SECONDS = 3.0


@dataclass(frozen=True)
class Server:
    version: str
    where: str
    local: bool
    """Whether the server runs on this machine."""
    round_trip_ms: float
    commit_ms: float
    """The time of a commit without the round trip: until the disk, or a synchronous standby, has it."""
    settings: Mapping[str, str]
    shared_buffers_mb: float
    pooled: bool
    """Whether the connection goes through a pooler in transaction mode."""
    hears: bool | None
    """Whether notifications arrive; None if that cannot be determined."""


def measure_server(url: str, schema: str) -> Server:
    with connect(url) as connection:
        settings = dict(
            connection.execute(
                "select name, setting from pg_settings where name = any (%s)", [list(SETTINGS)]
            ).fetchall()
        )
        ((version, process),) = connection.execute("select version(), pg_backend_pid()").fetchall()
        trip = _median(connection, b"select 1", TRIPS)
        connection.execute(in_schema("create table treadle.commits (n int)", schema).encode())
        insert = in_schema("insert into treadle.commits values (1)", schema).encode()
        commit = _median(connection, insert, COMMITS)
        # A pooler makes up the process id that it sends at connection start.
        pooled = process != connection.info.backend_pid
        local = connection.info.host.startswith("/") or connection.info.host in LOCAL
    heard = receives_notifications(Database(url, schema))
    return Server(
        version.split()[1],
        described(url),
        local,
        trip * 1000,
        max(0.0, commit - trip) * 1000,
        settings,
        int(settings["shared_buffers"]) * 8 / 1024,
        pooled,
        heard if isinstance(heard, bool) else None,
    )


def _median(connection: Any, statement: bytes, times: int) -> float:
    connection.execute(statement)  # the first one fills caches
    taken: list[float] = []
    end = perf_counter() + SECONDS
    while len(taken) < times and (not taken or perf_counter() < end):
        begin = perf_counter()
        connection.execute(statement)
        taken.append(perf_counter() - begin)
    return median(taken)
