"""Drain of jobs that wait 5 ms each."""

from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.peer import Peer

FASTEST = 12_000  # jobs per second: more than Python's event loop can run


def measure(bench: Bench, peer: Peer, rate: float) -> dict[str, Any]:
    jobs = bench.size(min(rate, FASTEST))
    place = bench.fresh(peer)
    peer.ask(place, "bulk", jobs, "wait5")
    drained = bench.drain(peer, place, jobs, "wait5")
    return {"jobs": jobs, "drained_per_second": drained.rate}
