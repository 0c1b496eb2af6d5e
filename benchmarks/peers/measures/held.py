"""Consecutive drains while another connection keeps a snapshot open, compared with drains without one."""

import time
from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.peer import Failed, Peer, Place

ROUNDS, FEWER = 10, 5
FAST = (
    10_000  # jobs per second; slower queues get fewer rounds and fewer jobs, because the run has to end within an hour
)
JOBS = {FAST: 50_000, 2_500: 20_000}  # minimum rate: jobs per drain; slower queues get the jobs of one second
SECONDS = 210.0  # no round starts after this time; earlier rounds count


def measure(bench: Bench, peer: Peer, rate: float) -> dict[str, Any]:
    jobs = min(bench.most, next((jobs for least, jobs in JOBS.items() if rate >= least), bench.size(rate / 2)))
    rounds = 2 if bench.quick else ROUNDS if rate >= FAST else FEWER
    held, free = bench.fresh(peer, "_held"), bench.fresh(peer)

    def drain(place: Place) -> float:
        peer.ask(place, "bulk", jobs)
        return bench.drain(peer, place, jobs).rate

    found: dict[str, Any] = {"jobs": jobs, "rounds": rounds, "held": [], "free": []}
    began = time.monotonic()
    # An open snapshot prevents the removal of dead rows only in its own database, so both databases can share a server.
    with bench.postgres.connect(held["BENCH_URL"].rsplit("/", 1)[1]) as connection:
        connection.execute("begin isolation level repeatable read")
        connection.execute("select count(*) from pg_class")
        for nth in range(1, rounds + 1):
            if time.monotonic() - began > SECONDS:
                found["stopped"] = f"the time limit of {SECONDS:.0f} s was reached"
                break
            # A drain without a snapshot before every round would double the time.
            if nth in (1, rounds):
                found["free"].append(drain(free))
            try:
                found["held"].append(drain(held))
            except Failed as error:
                if not found["held"]:
                    raise
                # A queue that slows down until it makes no progress is a result, not an error.
                found["stopped"] = f"round {nth}: {error}"
                break
        connection.execute("rollback")
    return found
