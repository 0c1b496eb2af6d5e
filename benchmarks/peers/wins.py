"""The figures in which another queue is ahead, and the reasons, which are written by hand in reasons.toml."""

import tomllib
from math import isfinite
from pathlib import Path

from benchmarks.peers.summary import FIGURES, Figure, Summary

REASONS = Path(__file__).parent / "reasons.toml"
REFERENCE = "bare"  # a baseline, not a queue: it is not ranked
NEARLY = 1.03  # smaller differences are within the spread of the rounds


def reasons() -> dict[str, dict[str, str]]:
    return tomllib.loads(REASONS.read_text()) if REASONS.exists() else {}


def wins(summary: Summary) -> str:
    """Return a line for each figure in which other queues are ahead of Treadle, naming all of them."""
    if not any(summary.rounds("treadle", figure.measure) for figure in FIGURES if "treadle" in summary.peers):
        return "Treadle is not in this run.\n"
    lines = []
    for figure in FIGURES:
        better = ahead(summary, figure)
        if not better:
            continue
        others = [
            f"{summary.shown(peer)} {_text(value, figure)}"
            + (f" ({ratio:.2f} times as good)" if isfinite(ratio) else "")
            for peer, value, ratio in better
        ]
        own = summary.value("treadle", figure.key)
        assert own
        lines.append(f"- **{figure.title}**, Treadle {_text(own.middle, figure)}: {'; '.join(others)}.")
        lines += _because(summary, figure, [peer for peer, _, _ in better])
    return "\n".join(lines) + "\n" if lines else "No other queue is ahead in any figure of this run.\n"


def _because(summary: Summary, figure: Figure, peers: list[str]) -> list[str]:
    """A reason that several queues share appears once."""
    known, by_reason = reasons(), dict[str, list[str]]()
    for peer in peers:
        names = (peer, "redis" if summary.on(peer, "redis") else "postgresql")
        found = [known.get(what, {}).get(name) for what in (figure.key, figure.measure, "any") for name in names]
        if why := next(filter(None, found), None):
            by_reason.setdefault(why, []).append(summary.shown(peer))
    return [f"  - {', '.join(shown)}: {why}" for why, shown in by_reason.items()]


def ahead(summary: Summary, figure: Figure) -> list[tuple[str, float, float]]:
    """Return the queues that are ahead of Treadle, with their figure and how many times it is as good."""
    values = summary.values(figure.key)
    if "treadle" not in values:
        return []
    own = values["treadle"].middle
    found = []
    for peer, value in values.items():
        if peer in ("treadle", REFERENCE):
            continue
        better, worse = (value.middle, own) if figure.more_is_better else (own, value.middle)
        if worse > 0 and better / worse > NEARLY:
            found.append((peer, value.middle, better / worse))
        elif worse <= 0 < better:
            found.append((peer, value.middle, float("inf")))
    return sorted(found, key=lambda one: -one[2])


def _text(value: float, figure: Figure) -> str:
    digits = 0 if value >= 100 or value == 0 else 1 if value >= 10 else 2 if value >= 0.1 else 4
    return f"{value:,.{digits}f}{figure.unit}"
