"""Whether a soak was flat, and its picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt

Samples = Sequence[Mapping[str, float]]

# How much more, or less, is still flat: a factor of what it was, and something for what is small.
FLAT: dict[str, tuple[float, float]] = {
    "p50_ms": (1.3, 2.0),
    "p99_ms": (1.5, 20.0),
    "supervisor_mb": (1.1, 5.0),
    "workers_mb": (1.1, 10.0),
    "table_mb": (1.2, 5.0),
    "index_mb": (1.2, 5.0),
    "dead_rows": (1.5, 2000.0),
}
RATE = 0.97
WAITED = "picked up after, ms"
PANELS = (
    ("jobs a second", ("rate", "enqueued")),
    (WAITED, ("p50_ms", "p99_ms")),
    ("memory, MB", ("workers_mb", "supervisor_mb")),
    ("tables and indexes, MB", ("table_mb", "index_mb")),
    ("dead rows", ("dead_rows",)),
)


def windows(samples: Samples, minutes: float) -> tuple[Samples, Samples]:
    """Those around the tenth minute, and the last. A short soak is held against its second fifth."""
    width = 2.0 if minutes >= 20 else minutes / 5
    first = 9.0 if minutes >= 20 else width
    early = [each for each in samples if first < each["minutes"] <= first + width]
    return early, [each for each in samples if each["minutes"] > minutes - width]


def compare(samples: Samples, minutes: float) -> tuple[list[str], list[str]]:
    """A line for each thing, and what is not flat."""
    early, late = windows(samples, minutes)
    if not early or not late:
        return [], ["too short to compare anything"]
    lines, grown = [], []
    for what in ("rate", *FLAT):
        before, after = (median(each[what] for each in window) for window in (early, late))
        if what == "rate":
            flat = after >= before * RATE
        else:
            factor, more = FLAT[what]
            flat = after <= before * factor + more
        lines.append(f"{what:>14}  {before:>10.2f}  {after:>10.2f}  {'flat' if flat else 'NOT FLAT'}")
        if not flat:
            grown.append(f"{what} went from {before:g} to {after:g}")
    return [f"{'':>14}  {'then':>10}  {'in the end':>10}", *lines], grown


def draw(samples: Samples, path: Path) -> None:
    mpl.rcParams["svg.hashsalt"] = "treadle"  # the same samples make the same file
    figure, panels = plt.subplots(len(PANELS), 1, figsize=(8, 10), sharex=True, layout="constrained")
    minutes = [each["minutes"] for each in samples]
    for panel, (title, lines) in zip(panels, PANELS, strict=True):
        for name in lines:
            panel.plot(minutes, [each[name] for each in samples], label=name.removesuffix("_mb").replace("_", " "))
        panel.set_title(title, loc="left", fontsize="small")
        if title == WAITED:
            panel.set_yscale("log")  # one late job would flatten the rest
        else:
            panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
        panel.legend(fontsize="x-small", loc="lower right")
    panels[-1].set_xlabel("minutes")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
