"""Drain of no-op jobs of one type and of ten, by one worker process and by eight."""

from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.peer import Peer

PROCESSES = (1, 8)
NAMES = {"noop": 1, "ten": 10}  # how many types the jobs have


def key(types: int, processes: int) -> str:
    return f"types_{types}_processes_{processes}"


def measure(bench: Bench, peer: Peer, rate: float) -> dict[str, Any]:
    jobs = bench.size(rate)
    found: dict[str, Any] = {"jobs": jobs}
    # Both numbers of types one after the other, because their ratio is of interest.
    for processes in PROCESSES:
        for name, types in NAMES.items():
            place = bench.fresh(peer)
            found[key(types, processes)] = bench.drain_together(peer, place, jobs, name, processes).rate
    return found
