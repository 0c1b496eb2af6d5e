"""One module per measurement. `measure(bench, peer, rate)` runs it once and returns the figures."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.measures import (
    busy,
    drain,
    growing,
    held,
    history,
    idle,
    kill,
    payloads,
    pickup,
    single,
    sustained,
    trickle,
    types,
    waiting,
)
from benchmarks.peers.peer import Peer


@dataclass(frozen=True)
class Measure:
    name: str
    measure: Callable[[Bench, Peer, float], dict[str, Any]]
    rounds: int  # interleaved with the rounds of the other queues
    limit: float  # seconds per round; exceeding it is recorded as a failure, and the run continues
    postgres: bool = False  # only for queues on PostgreSQL
    history: bool = False  # only for queues that keep finished jobs
    together: int = 1  # queues at a time: more for measurements that mostly wait
    outside: bool = False  # of the hour that all others share


MEASURES = [
    # A run that is out of time skips the last ones, so the most important come first.
    Measure("drain", drain.measure, rounds=3, limit=120),
    Measure("types", types.measure, rounds=2, limit=240),
    Measure("single", single.measure, rounds=3, limit=60),
    Measure("pickup", pickup.measure, rounds=2, limit=60),
    Measure("kill", kill.measure, rounds=1, limit=150, together=6),  # more would need more connections
    Measure("busy", busy.measure, rounds=2, limit=90),
    Measure("payloads", payloads.measure, rounds=1, limit=120),
    Measure("held", held.measure, rounds=1, limit=300, postgres=True),
    Measure("waiting", waiting.measure, rounds=1, limit=90),
    Measure("sustained", sustained.measure, rounds=1, limit=90),
    Measure("history", history.measure, rounds=1, limit=240, postgres=True, history=True),
    Measure("trickle", trickle.measure, rounds=2, limit=120, outside=True),
    Measure("idle", idle.measure, rounds=1, limit=900, together=16, outside=True),
    Measure("growing", growing.measure, rounds=1, limit=600, postgres=True, outside=True),
]
