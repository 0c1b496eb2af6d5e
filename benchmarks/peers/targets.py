"""What Treadle wants to reach against these queues, and whether the run shows it."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.peers.figures import median
from benchmarks.peers.summary import BY_KEY, Summary
from benchmarks.peers.tables import digits, table
from benchmarks.peers.wins import REFERENCE

ONE_TYPE = ["drain", "types_1_1", "types_1_8"]
TEN_TYPES = ["types_10_1", "types_10_8"]
LEASE = 10  # seconds


@dataclass(frozen=True)
class Verdict:
    target: str
    result: str
    met: bool


def targets(summary: Summary) -> str:
    """Return a table of the targets for which there are figures."""
    rows = [[one.target, one.result, "met" if one.met else "**missed**"] for one in verdicts(summary)]
    if not rows:
        return "This run has no figures for a target.\n"
    return table(["target", "result", ""], rows)


def verdicts(summary: Summary) -> Iterator[Verdict]:
    for key in ONE_TYPE:
        yield from _times(summary, key, "graphile-worker", 1.0)
    for key in TEN_TYPES:
        yield from _times(summary, key, "graphile-worker", 1.3)
    for key in ONE_TYPE + TEN_TYPES:
        yield from _times(summary, key, "pg-boss", 1.5)
    for key in ("single_1", "single_48"):
        for peer in ("oban", "pgqueuer"):
            yield from _times(summary, key, peer)
    on_postgres = [peer for peer in summary.peers if summary.on(peer, "postgresql")]
    for key in ("pickup_p50", "pickup_p99"):
        yield from _first(summary, key, on_postgres, "on PostgreSQL")
    yield from _times(summary, "trickle_cpu", "pgqueuer", 1.25)
    for key in ("trickle_cpu", "trickle_p50"):
        yield from _first(summary, key, on_postgres, "on PostgreSQL")
    yield from _first(summary, "trickle_p99", on_postgres, "on PostgreSQL", within=1.1)
    yield from _most(summary, "idle_cpu", 0.3)
    yield from _most(summary, "idle_statements", 2.0)
    yield from _no_wal(summary)
    yield from _most(summary, "busy_p50", 4.0)
    yield from _most(summary, "busy_p99", 12.0)
    leased = [peer for peer in summary.peers if summary.about(peer).get("lease") == LEASE]
    yield from _first(summary, "kill", leased, f"with a lease of {LEASE} s")
    yield from _times(summary, "wal", "pg-boss")
    yield from _most(summary, "payloads", 1.3)


def _times(summary: Summary, key: str, peer: str, least: float | None = None) -> Iterator[Verdict]:
    """Treadle is at least this many times as good as another queue, or, without a number, better than it."""
    figure = BY_KEY[key]
    ratio = summary.ratio(peer, key) if peer in summary.peers else None
    if ratio:
        # To two digits, as it is shown.
        times = round(1 / ratio if figure.more_is_better else ratio, 2)
        wanted = f"better than {peer}" if least is None else f"at least {least:g} times {peer}"
        met = times > 1 if least is None else times >= least
        yield Verdict(f"{figure.title}: {wanted}", f"{times:.2f} times as good", met)


def _first(summary: Summary, key: str, peers: list[str], among: str, within: float | None = None) -> Iterator[Verdict]:
    """Treadle is the first, or, with a number, its figure is at most so many times that of the best other queue."""
    figure, values = BY_KEY[key], summary.values(key)
    own = values.get("treadle")
    others = {peer: values[peer].middle for peer in peers if peer in values and peer not in ("treadle", REFERENCE)}
    if own and others:
        best = min(others, key=lambda peer: others[peer])
        first, second = (f"{value:.{digits(key)}f}" for value in (own.middle, others[best]))
        result = f"{first}{figure.unit}; the best other one is {summary.shown(best)}, {second}"
        wanted = "first" if within is None else f"at most {within:g} times the first"
        yield Verdict(f"{figure.title}: {wanted} of those {among}", result, own.middle <= others[best] * (within or 1))


def _most(summary: Summary, key: str, most: float) -> Iterator[Verdict]:
    figure, own = BY_KEY[key], summary.values(key).get("treadle")
    if own:
        result = f"{own.middle:.{digits(key)}f}{figure.unit}"
        yield Verdict(f"{figure.title}: at most {most:g}{figure.unit}", result, own.middle <= most)


def _no_wal(summary: Summary) -> Iterator[Verdict]:
    """An idle worker causes no WAL: the server writes no more than without it."""
    own = summary.value("treadle", "idle_wal") if "treadle" in summary.peers else None
    if own:
        alone = median([one["control"]["wal_per_hour"] for one in summary.rounds("treadle", "idle")])
        result = f"{own.middle:,.0f} bytes; {alone:,.0f} without a worker"
        yield Verdict(f"{BY_KEY['idle_wal'].title}: none because of the worker", result, own.middle <= alone)
