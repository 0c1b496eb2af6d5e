"""Bulk enqueue and drain of no-op jobs, the cost of both on the server, and the memory of a worker afterwards."""

from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.peer import Peer

WARM = 100  # jobs


def measure(bench: Bench, peer: Peer, rate: float) -> dict[str, Any]:
    jobs = bench.size(rate)
    place = bench.fresh(peer)
    # The first write to a page after a checkpoint writes the whole page to the WAL. Without this warm-up, queues that
    # get few jobs would seem to write more per job.
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
