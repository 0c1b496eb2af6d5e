"""What the figures mean for whoever runs this database: pure, from figures to sentences."""

from collections.abc import Iterator
from typing import NamedTuple

from treadle.cli.bench.all import Figures

# From where on a round trip, a commit and a pick-up are worth a word, in milliseconds. On one machine a round trip
# takes 0.1, in one data centre 0.5; a commit takes 0.1 to 2 on a solid disk that keeps its word; a pick-up a few.
FAR, SLOW_DISK, LATE = 2.0, 5.0, 100.0
# PostgreSQL's own default.
FEW_BUFFERS = 128.0
# How much more several connections must bring where commits are what one waits for.
TOGETHER = 1.5


class Advice(NamedTuple):
    name: str
    """The same in every version."""
    found: str
    """A sentence with the figure."""
    remedy: str


# Settings that are off: what that means, and how to set it right.
OFF = {
    "fsync": Advice(
        "fsync",
        "fsync is off: faster than a safe server, and a crash of the machine can destroy the database.",
        "alter system set fsync = on; restart the server, and measure again",
    ),
    "synchronous_commit": Advice(
        "synchronous_commit",
        "synchronous_commit is off: a crash forgets the jobs of the last moments, though their enqueue had returned.",
        "alter system set synchronous_commit = on; select pg_reload_conf(); and measure again",
    ),
    "autovacuum": Advice(
        "autovacuum",
        "autovacuum is off: dead rows stay for ever, and the queue gets slower with every job.",
        "alter system set autovacuum = on; select pg_reload_conf();",
    ),
}


def advise(figures: Figures) -> list[Advice]:
    settings = figures.server.settings
    off = [advice for name, advice in OFF.items() if settings.get(name) == "off"]
    return [*off, *_server(figures), *_between(figures), *_left_behind(figures)]


def _server(figures: Figures) -> Iterator[Advice]:
    server = figures.server
    if server.shared_buffers_mb < FEW_BUFFERS:
        yield Advice(
            "shared_buffers",
            f"shared_buffers is {server.shared_buffers_mb:,.0f} MB: pages of the queue are read again and again.",
            "set it to a quarter of the machine's memory (alter system set shared_buffers = …), and restart the server",
        )
    if server.round_trip_ms >= FAR:
        most = f"{1000 / server.round_trip_ms:,.0f}"
        yield Advice(
            "round_trip",
            f"A round trip takes {server.round_trip_ms:.1f} ms: one by one, a connection enqueues {most} jobs/s.",
            "the server is on this machine, which must be busy with something else: look at its load"
            if server.local
            else "run workers and producers near the database; use enqueue_many, or several connections",
        )
    if server.commit_ms >= SLOW_DISK:
        standby = server.settings.get("synchronous_standby_names")
        waits = f"it waits for a standby ({standby})" if standby else "the server waits for its disk"
        faster = "put the standby near" if standby else "put its WAL on a faster disk (local and solid)"
        yield Advice(
            "commit",
            f"A commit takes {server.commit_ms:.1f} ms: {waits}.",
            f"{faster}; use enqueue_many: one commit for all of its jobs",
        )
    one, several = figures.singles[0], figures.singles[-1]
    if server.commit_ms >= 1 and several.rate < TOGETHER * one.rate:
        yield Advice(
            "connections",
            f"{several.connections} connections enqueue only {several.rate / one.rate:.1f} times as fast as one.",
            "the server, or this machine, has no core or disk left for more at once: look at its load",
        )


def _between(figures: Figures) -> Iterator[Advice]:
    if figures.server.hears is False:
        yield Advice(
            "notifications",
            "A notification was sent and did not arrive: workers find their jobs by looking once a second.",
            "give workers a URL that leads to PostgreSQL itself, or to a pool in session mode; "
            "to live with it: treadle worker --no-listen --poll 0.2s",
        )
    elif figures.pick_up.p50_ms >= LATE:
        yield Advice(
            "pick_up",
            f"A waiting worker took {figures.pick_up.p50_ms:,.0f} ms to begin a job, though notifications arrive.",
            "this machine or the server is busy with something else: look at its load, and at treadle doctor",
        )
    if figures.server.pooled:
        yield Advice(
            "pooler",
            "A pooler stands between: every round trip goes through it.",
            "Treadle has pools of its own: give workers the server's own address; web processes can stay behind it",
        )


def _left_behind(figures: Figures) -> Iterator[Advice]:
    if figures.left_behind:
        yield Advice(
            "left_behind",
            f"A bench that was killed, or one that runs now, has left: {', '.join(figures.left_behind)}.",
            " ".join(f'drop schema "{name}" cascade;' for name in figures.left_behind),
        )
