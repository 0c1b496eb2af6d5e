"""Advice for the operator of the database, derived from the figures. Pure functions."""

from collections.abc import Iterator
from typing import NamedTuple

from treadle.cli.bench.suite import Figures

# Milliseconds from which a round trip, a commit and a pick-up are worth advice. A round trip takes 0.1 ms on one
# machine and 0.5 ms in one data centre; a commit takes 0.1 to 2 ms on an SSD that honours fsync; a pick-up takes a few.
SLOW_ROUND_TRIP, SLOW_COMMIT, SLOW_PICK_UP = 2.0, 5.0, 100.0
# The default of PostgreSQL, in MB.
SMALL_SHARED_BUFFERS = 128.0
# Several connections should be this many times faster than one where commits are slow, because they commit together.
CONNECTIONS_GAIN = 1.5


class Advice(NamedTuple):
    name: str
    """Stable across versions."""
    found: str
    """A sentence with the figure."""
    remedy: str


# Settings that should not be off.
OFF = {
    "fsync": Advice(
        "fsync",
        "fsync is off: commits are faster than on a safe server, and a crash of the machine can destroy the database.",
        "alter system set fsync = on; then restart the server and measure again",
    ),
    "synchronous_commit": Advice(
        "synchronous_commit",
        "synchronous_commit is off: a crash of the server can lose jobs whose enqueue has already returned.",
        "alter system set synchronous_commit = on; select pg_reload_conf(); then measure again",
    ),
    "autovacuum": Advice(
        "autovacuum",
        "autovacuum is off: dead rows are never removed, and the queue gets slower with every job.",
        "alter system set autovacuum = on; select pg_reload_conf();",
    ),
}


def advise(figures: Figures) -> list[Advice]:
    settings = figures.server.settings
    off = [advice for name, advice in OFF.items() if settings.get(name) == "off"]
    return [*off, *_server(figures), *_connection(figures), *_left_behind(figures)]


def _server(figures: Figures) -> Iterator[Advice]:
    server = figures.server
    if server.shared_buffers_mb < SMALL_SHARED_BUFFERS:
        yield Advice(
            "shared_buffers",
            f"shared_buffers is {server.shared_buffers_mb:,.0f} MB: pages of the queue are evicted and read again.",
            "set it to about 25 % of the memory (alter system set shared_buffers = …), then restart the server",
        )
    if server.round_trip_ms >= SLOW_ROUND_TRIP:
        limit = f"{1000 / server.round_trip_ms:,.0f}"
        yield Advice(
            "round_trip",
            f"A round trip takes {server.round_trip_ms:.1f} ms: one connection enqueues at most {limit} single jobs/s.",
            "the server is on this machine, so other load slows it down: check the load of the machine"
            if server.local
            else "run workers and producers close to the database; use enqueue_many or several connections",
        )
    if server.commit_ms >= SLOW_COMMIT:
        standby = server.settings.get("synchronous_standby_names")
        cause = f"it waits for a synchronous standby ({standby})" if standby else "the server waits for its disk"
        faster = "move the standby closer" if standby else "put the WAL on a faster disk (a local SSD)"
        yield Advice(
            "commit",
            f"A commit takes {server.commit_ms:.1f} ms: {cause}.",
            f"{faster}; use enqueue_many, which commits all of its jobs at once",
        )
    one, several = figures.singles[0], figures.singles[-1]
    if server.commit_ms >= 1 and several.rate < CONNECTIONS_GAIN * one.rate:
        yield Advice(
            "connections",
            f"{several.connections} connections enqueue only {several.rate / one.rate:.1f} times as fast as one.",
            "the CPUs or the disk of the server, or of this machine, are saturated: check their load",
        )


def _connection(figures: Figures) -> Iterator[Advice]:
    if figures.server.hears is False:
        yield Advice(
            "notifications",
            "A notification was sent and did not arrive: workers find new jobs only by polling, every 1 s.",
            "connect workers to PostgreSQL directly, or to a pooler in session mode; "
            "if you cannot: treadle worker --no-listen --poll 0.2s",
        )
    elif figures.pick_up.p50_ms >= SLOW_PICK_UP:
        yield Advice(
            "pick_up",
            f"A waiting worker took {figures.pick_up.p50_ms:,.0f} ms to start a job, although notifications arrive.",
            "this machine or the server is busy: check their load, and run treadle doctor",
        )
    if figures.server.pooled:
        yield Advice(
            "pooler",
            "The connection goes through a pooler, which adds to every round trip.",
            "connect workers to the server directly, as they have their own pools; web processes can keep the pooler",
        )


def _left_behind(figures: Figures) -> Iterator[Advice]:
    if figures.left_behind:
        yield Advice(
            "left_behind",
            f"Schemas of another treadle bench, killed or still running, exist: {', '.join(figures.left_behind)}.",
            "if none is running: " + " ".join(f'drop schema "{name}" cascade;' for name in figures.left_behind),
        )
