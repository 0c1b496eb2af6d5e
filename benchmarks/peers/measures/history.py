"""Drain with a million finished jobs in the table."""

from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.peer import Failed, LeftOut, Peer

FINISHED = 1_000_000
SECONDS = 180  # limit for inserting them


def measure(bench: Bench, peer: Peer, rate: float) -> dict[str, Any]:
    finished = 20_000 if bench.quick else FINISHED
    jobs = bench.size(rate)
    place = bench.fresh(peer)
    try:
        peer.ask(place, "finished", finished, seconds=SECONDS)
    except Failed as error:
        _, unable, why = str(error).partition("NotImplementedError: ")
        if unable:
            raise LeftOut(why) from error
        raise
    with bench.postgres.connect(place["BENCH_URL"].rsplit("/", 1)[1]) as connection:
        # The state in which autovacuum leaves a table that has grown over time.
        connection.execute("vacuum analyze")
        connection.execute("checkpoint")
    peer.ask(place, "bulk", jobs)
    drained = bench.drain(peer, place, jobs)
    return {"finished": finished, "jobs": jobs, "drained_per_second": drained.rate}
