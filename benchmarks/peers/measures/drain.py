"""Bulk enqueue and drain of no-op jobs, what both cost the server, and the memory of a worker after it."""

from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.peer import Peer

WARM = 100  # jobs


def measure(bench: Bench, peer: Peer, rate: float) -> dict[str, Any]:
    jobs = bench.size(rate)
    place = bench.fresh(peer)
    # The first write to a page after a checkpoint logs all of the page, which would weigh on whoever gets few jobs.
    peer.ask(place, "bulk", WARM)
    bench.drain(peer, place, WARM)
    before = bench.counters(place) if peer.store == "postgresql" else {}
    enqueued = peer.ask(place, "bulk", jobs)
    drained = bench.drain(peer, place, jobs)
    after = bench.counters(place) if peer.store == "postgresql" else {}
    return {
        "jobs": jobs,
        "enqueued_per_second": enqueued["jobs"] / enqueued["seconds"],
        "drained_per_second": drained.rate,
        "memory_mb": drained.memory_mb,
        "per_job": {name: (after[name] - before[name]) / jobs for name in after},
    }
