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
    rounds: bool  # several, interleaved with those of the others; else one, which is long
    postgres: bool = False  # only there
    history: bool = False  # only if finished jobs stay
    together: bool = False  # of several peers at a time: it waits, and takes next to nothing


MEASURES = [
    Measure("drain", drain.measure, rounds=True),
    Measure("waiting", waiting.measure, rounds=True),
    Measure("single", single.measure, rounds=True),
    Measure("sustained", sustained.measure, rounds=True),
    Measure("idle", idle.measure, rounds=True),
    Measure("busy", busy.measure, rounds=True),
    Measure("kill", kill.measure, rounds=False, together=True),
    Measure("history", history.measure, rounds=False, postgres=True, history=True),
    Measure("held", held.measure, rounds=False, postgres=True),
]
