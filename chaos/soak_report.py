"""Checks whether the figures of a soak stayed constant, and plots them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt

Samples = Sequence[Mapping[str, float]]

# The largest value that still counts as constant: early value * factor + margin, where the margin allows for the noise
# of small values.
TOLERANCES: dict[str, tuple[float, float]] = {
    "p50_ms": (1.3, 2.0),
    "p99_ms": (1.5, 20.0),
    "supervisor_mb": (1.1, 5.0),
    "workers_mb": (1.1, 10.0),
    "table_mb": (1.2, 5.0),
    "index_mb": (1.2, 5.0),
    "dead_rows": (1.5, 2000.0),
}
MIN_RATE = 0.97  # of the early rate
LATENCY = "pick-up latency, ms"
PANELS = (
    ("jobs per second", ("rate", "enqueued")),
    (LATENCY, ("p50_ms", "p99_ms")),
    ("memory, MB", ("workers_mb", "supervisor_mb")),
    ("tables and indexes, MB", ("table_mb", "index_mb")),
    ("dead rows", ("dead_rows",)),
)


def windows(samples: Samples, minutes: float) -> tuple[Samples, Samples]:
    """Return the samples around minute 10 and the last ones. For a short soak, the first are from its second fifth."""
    width = 2.0 if minutes >= 20 else minutes / 5
    first = 9.0 if minutes >= 20 else width
    early = [each for each in samples if first < each["minutes"] <= first + width]
    return early, [each for each in samples if each["minutes"] > minutes - width]


def compare(samples: Samples, minutes: float) -> tuple[list[str], list[str]]:
    """Return a line per figure, and descriptions of the figures that did not stay constant."""
    early, late = windows(samples, minutes)
    if not early or not late:
        return [], ["too short to compare anything"]
    lines, changed = [], []
    for what in ("rate", *TOLERANCES):
        before, after = (median(each[what] for each in window) for window in (early, late))
        if what == "rate":
            constant = after >= before * MIN_RATE
        else:
            factor, margin = TOLERANCES[what]
            constant = after <= before * factor + margin
        lines.append(f"{what:>14}  {before:>10.2f}  {after:>10.2f}  {'constant' if constant else 'CHANGED'}")
        if not constant:
            changed.append(f"{what} changed from {before:g} to {after:g}")
    return [f"{'':>14}  {'early':>10}  {'late':>10}", *lines], changed


def draw(samples: Samples, path: Path) -> None:
    mpl.rcParams["svg.hashsalt"] = "treadle"  # the same samples produce the same file
    figure, panels = plt.subplots(len(PANELS), 1, figsize=(8, 10), sharex=True, layout="constrained")
    minutes = [each["minutes"] for each in samples]
    for panel, (title, lines) in zip(panels, PANELS, strict=True):
        for name in lines:
            panel.plot(minutes, [each[name] for each in samples], label=name.removesuffix("_mb").replace("_", " "))
        panel.set_title(title, loc="left", fontsize="small")
        if title == LATENCY:
            panel.set_yscale("log")  # on a linear axis, one late job would hide the rest
        else:
            panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
        panel.legend(fontsize="x-small", loc="lower right")
    panels[-1].set_xlabel("minutes")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
