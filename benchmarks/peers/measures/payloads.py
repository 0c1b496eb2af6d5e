"""Pick-up latency of small jobs, alone and while jobs with 200 kB of payload pass through the same queue."""

from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.figures import quantiles
from benchmarks.peers.measures.latency import latency
from benchmarks.peers.peer import Peer

RATE = 100.0  # small jobs per second; every queue here manages that
LARGE_RATE = 20.0
SECONDS = 6.0


def measure(bench: Bench, peer: Peer, rate: float) -> dict[str, Any]:
    seconds = 1.0 if bench.quick else SECONDS
    alone = latency(bench, peer, RATE, seconds, "mixed").latencies
    beside = latency(bench, peer, RATE, seconds, "mixed", LARGE_RATE).latencies
    found = {"alone": quantiles(alone), "beside": quantiles(beside)}
    return {"rate": RATE, "large_rate": LARGE_RATE, **found, "ratio": found["beside"]["p99"] / found["alone"]["p99"]}
