"""Ten drains in a row while another connection holds a snapshot, next to some in a database where nobody does."""

import time
from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.peer import Failed, Peer, Place

ROUNDS = 10
FREE = {1, 10}  # before these rounds; all would double the time
JOBS = {10_000: 50_000, 2_500: 20_000}  # for whoever does so many a second; the others get what takes them a second
SECONDS = 210.0  # no round begins after that; what was measured until then stands


def measure(bench: Bench, peer: Peer, rate: float) -> dict[str, Any]:
    jobs = min(bench.most, next((jobs for least, jobs in JOBS.items() if rate >= least), bench.size(rate / 2)))
    rounds = 2 if bench.quick else ROUNDS
    held, free = bench.fresh(peer, "_held"), bench.fresh(peer)

    def drain(place: Place) -> float:
        peer.ask(place, "bulk", jobs)
        return bench.drain(peer, place, jobs).rate

    found: dict[str, Any] = {"jobs": jobs, "rounds": rounds, "held": [], "free": []}
    began = time.monotonic()
    # Of a database's own snapshots alone depends what can be removed in it, so the two can stand side by side.
    with bench.postgres.connect(held["BENCH_URL"].rsplit("/", 1)[1]) as connection:
        connection.execute("begin isolation level repeatable read")
        connection.execute("select count(*) from pg_class")
        for nth in range(1, rounds + 1):
            if time.monotonic() - began > SECONDS:
                found["stopped"] = f"no time was left after {SECONDS:.0f} s"
                break
            if nth in FREE or bench.quick:
                found["free"].append(drain(free))
            try:
                found["held"].append(drain(held))
            except Failed as error:
                if not found["held"]:
                    raise
                # That it gets slower until it stands still is what is to be seen here.
                found["stopped"] = f"round {nth}: {error}"
                break
        connection.execute("rollback")
    return found
