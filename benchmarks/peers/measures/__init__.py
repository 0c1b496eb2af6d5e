"""One module for each thing that is measured: `measure(bench, peer, rate)` does it once and returns the figures."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.bench import Bench
from benchmarks.peers.measures import busy, drain, held, history, idle, kill, single, sustained, waiting
from benchmarks.peers.peer import Peer


@dataclass(frozen=True)
class Measure:
    name: str
    measure: Callable[[Bench, Peer, float], dict[str, Any]]
    rounds: int  # interleaved with those of the others
    limit: float  # seconds for one; what takes longer is a failure, and the run goes on
    postgres: bool = False  # only there
    history: bool = False  # only if finished jobs stay
    together: bool = False  # of several peers at a time: it waits, and takes next to nothing


MEASURES = [
    # The dearest last, but for what a run that is out of time could do without.
    Measure("drain", drain.measure, rounds=3, limit=120),
    Measure("waiting", waiting.measure, rounds=3, limit=90),
    Measure("single", single.measure, rounds=3, limit=60),
    Measure("idle", idle.measure, rounds=2, limit=60),
    Measure("kill", kill.measure, rounds=1, limit=150, together=True),
    Measure("held", held.measure, rounds=1, limit=300, postgres=True),
    Measure("history", history.measure, rounds=3, limit=240, postgres=True, history=True),
    Measure("sustained", sustained.measure, rounds=2, limit=90),
    Measure("busy", busy.measure, rounds=2, limit=90),
]
