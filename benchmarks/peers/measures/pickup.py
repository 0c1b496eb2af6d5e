"""Pick-up latency of an idle worker, from just before the enqueue to the handler's first line, at 30 jobs/s."""

from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.measures.latency import latency
from benchmarks.peers.peer import Peer

RATE = 30.0


def measure(bench: Bench, peer: Peer, rate: float) -> dict[str, Any]:
    found = latency(bench, peer, RATE, 1.0 if bench.quick else 150 / RATE)
    return {"rate": RATE, "latencies_ms": found.latencies}
