"""Pick-up latency at half load: half of the drain rate, or half of the enqueue rate of 48 connections if less."""

from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.figures import quantiles
from benchmarks.peers.measures.latency import latency
from benchmarks.peers.measures.single import MANY
from benchmarks.peers.peer import Peer


def measure(bench: Bench, peer: Peer, rate: float) -> dict[str, Any]:
    # One call per job, because the latency of a call is measured. Enqueueing this way is slower than draining.
    place = bench.fresh(peer)
    answer = peer.ask(place, "single", 0.5 if bench.quick else 1.0, MANY)
    load = max(10.0, min(rate, answer["jobs"] / answer["seconds"]) / 2)
    found = latency(bench, peer, load, 1.0 if bench.quick else 4.0)
    return {"asked_rate": load, "rate": found.rate, **quantiles(found.latencies)}
