"""Enqueues one job per call, durable when the call returns, from one connection and from 48."""

from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.peer import Peer

MANY = 48


def measure(bench: Bench, peer: Peer, rate: float) -> dict[str, Any]:
    seconds = 0.5 if bench.quick else 1.5
    place = bench.fresh(peer)
    found = {}
    for clients in (1, MANY):
        answer = peer.ask(place, "single", seconds, clients)
        found[f"per_second_{clients}"] = answer["jobs"] / answer["seconds"]
    return found
