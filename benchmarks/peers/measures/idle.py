"""What a worker without work costs: processor time, statements and WAL; and what the same server does without a worker.

The queue has a server of its own. The worker has run a few jobs, and then had none for `settle` seconds. A server with
default settings checkpoints every five minutes, and the first change of a page after a checkpoint writes the whole page
to the WAL. So a window of five minutes has one checkpoint, if there was anything to write, and an hour has twelve times
the WAL of the window.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.measures.latency import SECONDS as LIMIT
from benchmarks.peers.peer import Peer, Place
from benchmarks.processor import cpu_seconds

# It counts the statements that clients send, also begin and commit, but not those inside of functions.
SETTINGS = {"shared_preload_libraries": "pg_stat_statements"}
CALM = 30.0  # seconds after a checkpoint, in which background processes of the server may still write about it
CONTROL = 120.0  # seconds without a worker, at most

Counters = dict[str, float]


def measure(bench: Bench, peer: Peer, rate: float) -> dict[str, Any]:
    with bench.apart(peer, SETTINGS) as own:
        place = own.fresh(peer)
        with _counting(own, peer, place) as counters:
            with peer.working(place, "stamp", 1) as workers:
                jobs = int(peer.ask(place, "produce", 20, 0.5)["jobs"])
                workers.await_ran(jobs, LIMIT)
                _settle(own, peer, bench.settle)
                pids = [process.pid for process in workers.processes]
                found = _window(own, own.server(peer), pids, counters, bench.window)
                # It was idle, and not gone.
                workers.await_ran(jobs + int(peer.ask(place, "produce", 20, 0.5)["jobs"]), LIMIT)
            _settle(own, peer, min(2 * CALM, bench.settle))
            control = _window(own, own.server(peer), [], counters, min(CONTROL, bench.window))
    return {"settle": bench.settle, "window": bench.window, **found, "control": control}


def _settle(bench: Bench, peer: Peer, seconds: float) -> None:
    calm = min(CALM, seconds / 2)
    bench.rest(seconds - calm)
    if peer.store == "postgresql":
        bench.postgres.clean()
    bench.rest(calm)


@contextmanager
def _counting(bench: Bench, peer: Peer, place: Place) -> Iterator[Callable[[], Counters]]:
    """Yield a function that returns the server's counters of statements and, on PostgreSQL, of bytes of WAL."""
    if peer.store == "redis":
        assert bench.redis
        info, asked = bench.redis.info, count()  # without our own questions
        yield lambda: {"statements": float(info("stats", "total_commands_processed")) - next(asked)}
        return
    # From another database, so that these statements are not counted.
    with bench.postgres.connect() as connection:
        connection.execute("create extension pg_stat_statements")

        def counters() -> Counters:
            row: Any = connection.execute(
                """select coalesce(sum(calls), 0), pg_current_wal_insert_lsn() - '0/0'::pg_lsn
                from pg_stat_statements
                join pg_database on pg_database.oid = dbid
                where datname = %s""",
                [place["BENCH_URL"].rsplit("/", 1)[1]],
            ).fetchone()
            return {"statements": float(row[0]), "wal": float(row[1])}

        yield counters


def _window(
    bench: Bench, server: int, worker: list[int], counters: Callable[[], Counters], seconds: float
) -> dict[str, Any]:
    def used() -> dict[str, float]:
        return {"server": cpu_seconds([server]), "worker": cpu_seconds(worker)}

    counted, before, began = counters(), used(), time.monotonic()
    bench.rest(seconds)
    after, lasted = used(), time.monotonic() - began  # before the question for the counters, which costs some, too
    more = {name: count - counted[name] for name, count in counters().items()}
    percent = {name: (after[name] - before[name]) / lasted * 100 for name in after}
    found = {
        "cpu_percent": percent | {"all": sum(percent.values())},
        "statements_per_minute": more["statements"] / lasted * 60,
    }
    return found | ({"wal_per_hour": more["wal"] / lasted * 3600} if "wal" in more else {})
