"""Pick-up at half load: half of the peer's drain, or half of what 48 connections enqueue if that is less."""

from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.figures import quantiles
from benchmarks.peers.measures.latency import latency
from benchmarks.peers.measures.single import MANY
from benchmarks.peers.peer import Peer


def measure(bench: Bench, peer: Peer, rate: float) -> dict[str, Any]:
    # One call a job, as the latency is that of a call; no peer enqueues so as fast as it drains a backlog.
    place = bench.fresh(peer)
    answer = peer.ask(place, "single", 0.5 if bench.quick else 1.0, MANY)
    load = max(10.0, min(rate, answer["jobs"] / answer["seconds"]) / 2)
    found = latency(bench, peer, load, 1.0 if bench.quick else 4.0)
    return {"asked_rate": load, "rate": found.rate, **quantiles(found.latencies)}
