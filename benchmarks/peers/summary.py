"""Summarizes the raw figures: for each queue and figure, the median, minimum and maximum of the rounds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.figures import median, quantiles

Rounds = list[dict[str, Any]]

NEW = 16  # jobs not counted: one for each connection of a producer


@dataclass(frozen=True)
class Figure:
    """A figure by which queues are compared."""

    key: str
    title: str
    measure: str
    read: Callable[[Rounds], list[float]]  # returns one value per round
    unit: str = ""
    more_is_better: bool = True


@dataclass(frozen=True)
class Value:
    middle: float
    least: float
    most: float

    def text(self, digits: int = 0) -> str:
        if self.least == self.most:
            return f"{self.middle:,.{digits}f}"
        return f"{self.middle:,.{digits}f} ({self.least:,.{digits}f} to {self.most:,.{digits}f})"


def each(name: str) -> Callable[[Rounds], list[float]]:
    return lambda rounds: [float(one[name]) for one in rounds if one.get(name) is not None]


def per_job(name: str) -> Callable[[Rounds], list[float]]:
    return lambda rounds: [float(one["per_job"][name]) for one in rounds if one["per_job"]]


def inner(part: str, name: str) -> Callable[[Rounds], list[float]]:
    return lambda rounds: [float(one[part][name]) for one in rounds]


def waited(name: str) -> Callable[[Rounds], list[float]]:
    """Return a percentile of all rounds together, because one round has too few jobs for a p99. The first jobs of each
    round use new connections and are not counted."""

    def read(rounds: Rounds) -> list[float]:
        found = [every for one in rounds for every in one["latencies_ms"][NEW:]]
        return [quantiles(found)[name]] if found else []

    return read


def tenth(rounds: Rounds) -> list[float]:
    return [one["held"][-1] / median(one["free"]) for one in rounds]


FIGURES = [
    Figure("drain", "drain of no-op jobs", "drain", each("drained_per_second"), "/s"),
    Figure("types_1_1", "drain, 1 job type, 1 process", "types", each("types_1_processes_1"), "/s"),
    Figure("types_10_1", "drain, 10 job types, 1 process", "types", each("types_10_processes_1"), "/s"),
    Figure("types_1_8", "drain, 1 job type, 8 processes", "types", each("types_1_processes_8"), "/s"),
    Figure("types_10_8", "drain, 10 job types, 8 processes", "types", each("types_10_processes_8"), "/s"),
    Figure("waiting", "drain of jobs that wait 5 ms", "waiting", each("drained_per_second"), "/s"),
    Figure("sustained", "producer and workers together", "sustained", each("per_second"), "/s"),
    Figure("bulk", "bulk enqueue", "drain", each("enqueued_per_second"), "/s"),
    Figure("single_1", "single enqueue, 1 connection", "single", each("per_second_1"), "/s"),
    Figure("single_48", "single enqueue, 48 connections", "single", each("per_second_48"), "/s"),
    Figure("pickup_p50", "pick-up latency, idle, p50", "pickup", waited("p50"), " ms", False),
    Figure("pickup_p95", "pick-up latency, idle, p95", "pickup", waited("p95"), " ms", False),
    Figure("pickup_p99", "pick-up latency, idle, p99", "pickup", waited("p99"), " ms", False),
    Figure("busy_p50", "pick-up latency at half load, p50", "busy", each("p50"), " ms", False),
    Figure("busy_p95", "pick-up latency at half load, p95", "busy", each("p95"), " ms", False),
    Figure("busy_p99", "pick-up latency at half load, p99", "busy", each("p99"), " ms", False),
    Figure("trickle_cpu", "CPU per job at 100 jobs/s", "trickle", inner("cpu_ms", "all"), " ms", False),
    Figure("trickle_server", "server CPU per job at 100 jobs/s", "trickle", inner("cpu_ms", "server"), " ms", False),
    Figure("trickle_worker", "worker CPU per job at 100 jobs/s", "trickle", inner("cpu_ms", "worker"), " ms", False),
    Figure(
        "trickle_producer", "producer CPU per job at 100 jobs/s", "trickle", inner("cpu_ms", "producer"), " ms", False
    ),
    Figure("trickle_p50", "pick-up latency at 100 jobs/s, p50", "trickle", each("p50"), " ms", False),
    Figure("trickle_p99", "pick-up latency at 100 jobs/s, p99", "trickle", each("p99"), " ms", False),
    Figure("idle_cpu", "CPU of an idle worker and its server", "idle", inner("cpu_percent", "all"), " %", False),
    Figure(
        "idle_statements", "statements per minute of an idle worker", "idle", each("statements_per_minute"), "", False
    ),
    Figure("idle_wal", "WAL per hour with an idle worker", "idle", each("wal_per_hour"), " bytes", False),
    Figure("kill", "recovery after kill -9", "kill", each("seconds"), " s", False),
    Figure("history", "drain with many finished jobs", "history", each("drained_per_second"), "/s"),
    Figure("held", "last drain with an open snapshot, relative to the rate without", "held", tenth, ""),
    Figure("growing_first", "five minutes of work, first minute", "growing", each("first"), "/s"),
    Figure("growing_last", "five minutes of work, last minute", "growing", each("last"), "/s"),
    Figure("payloads_alone", "pick-up latency of small jobs, p99", "payloads", inner("alone", "p99"), " ms", False),
    Figure("payloads_p99", "the same beside 200 kB payloads", "payloads", inner("beside", "p99"), " ms", False),
    Figure(
        "payloads", "p99 of small jobs beside 200 kB payloads, relative to alone", "payloads", each("ratio"), "", False
    ),
    Figure("wal", "WAL per job", "drain", per_job("wal_bytes"), " bytes", False),
    Figure("transactions", "transactions per job", "drain", per_job("transactions"), "", False),
    Figure("versions", "row versions written per job", "drain", per_job("versions"), "", False),
    Figure("dead", "dead rows per job", "drain", per_job("dead"), "", False),
    Figure("memory", "memory of a worker process", "drain", each("memory_mb"), " MB", False),
]
BY_KEY = {figure.key: figure for figure in FIGURES}


@dataclass(frozen=True)
class Summary:
    raw: dict[str, Any]

    @property
    def peers(self) -> list[str]:
        return list(self.raw["peers"])

    def about(self, peer: str) -> dict[str, Any]:
        return dict(self.raw["peers"][peer].get("about") or {"name": peer})

    def shown(self, peer: str) -> str:
        return str(self.about(peer).get("name", peer))

    def rounds(self, peer: str, measure: str) -> Rounds:
        return list(self.raw["peers"][peer]["measures"].get(measure, {}).get("rounds", []))

    def value(self, peer: str, key: str) -> Value | None:
        figure = BY_KEY[key]
        found = figure.read(self.rounds(peer, figure.measure))
        return Value(median(found), min(found), max(found)) if found else None

    def ratio(self, peer: str, key: str) -> float | None:
        """Return the peer's figure relative to Treadle's: the median of the ratios of rounds that were interleaved."""
        figure = BY_KEY[key]
        if "treadle" not in self.peers:
            return None
        found, own = (figure.read(self.rounds(name, figure.measure)) for name in (peer, "treadle"))
        if not found or not own or min(own) <= 0:
            return None
        if len(found) != len(own):
            return median(found) / median(own)
        return median([one / other for one, other in zip(found, own, strict=True)])

    def values(self, key: str) -> dict[str, Value]:
        return {peer: value for peer in self.peers if (value := self.value(peer, key))}

    def on(self, peer: str, store: str) -> bool:
        return self.about(peer).get("store") == store

    def failures(self) -> list[tuple[str, str, str]]:
        """Return (peer, measurement, reason) for everything that could not be measured."""
        found = []
        for peer, raw in self.raw["peers"].items():
            if "failed" in raw:
                found.append((peer, "all", raw["failed"]))
            for name, each in raw["measures"].items():
                found += [(peer, name, each[why]) for why in ("failed", "left_out") if why in each]
        return found
