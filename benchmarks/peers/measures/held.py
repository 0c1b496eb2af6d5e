"""Ten drains in a row while another connection holds a snapshot, next to some in a database where nobody does."""

from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.peer import Peer, Place

ROUNDS = 10
FREE = {1, 5, 10}  # after these rounds; all would double the time


def measure(bench: Bench, peer: Peer, rate: float) -> dict[str, Any]:
    jobs = bench.size(rate)
    rounds = 2 if bench.quick else ROUNDS
    held, free = bench.fresh(peer, "_held"), bench.fresh(peer)

    def drain(place: Place) -> float:
        peer.ask(place, "bulk", jobs)
        return bench.drain(peer, place, jobs).rate

    rates: dict[str, list[float]] = {"held": [], "free": []}
    # Of a database's own snapshots alone depends what can be removed in it, so the two can stand side by side.
    with bench.postgres.connect(held["BENCH_URL"].rsplit("/", 1)[1]) as connection:
        connection.execute("begin isolation level repeatable read")
        connection.execute("select count(*) from pg_class")
        for nth in range(1, rounds + 1):
            rates["held"].append(drain(held))
            if nth in FREE or bench.quick:
                rates["free"].append(drain(free))
        connection.execute("rollback")
    return {"jobs": jobs, **rates}
