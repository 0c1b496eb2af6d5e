"""Draws the plots as SVG with a transparent background, in colours that are readable on light and dark pages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.patches import Patch

from benchmarks.peers.summary import BY_KEY, Summary, Value

INK = "#7d8590"  # has the same contrast on white and on black
OURS, REFERENCE = "#2f81f7", "#a371f7"
STORES = {"postgresql": "#6e7f91", "redis": "#d0663b"}
LINES = ["#d0663b", "#3fa45b", "#b08800", "#c2509b", "#2aa5a0", "#8c6bd1", "#7d8590", "#c94f4f", "#5c8a2f", "#976b3f"]

mpl.use("svg")
mpl.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "treadle",  # the same figures produce the same file
        "font.family": "sans-serif",
        "font.size": 10,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": INK,
        "axes.titlecolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "grid.color": INK,
        "grid.alpha": 0.25,
    }
)


def draw(summary: Summary, folder: Path) -> list[str]:
    """Draw every plot for which there are figures, and return the names of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    plots: dict[str, Callable[[], Any]] = {
        "drain": lambda: _bars(summary, ["drain", "waiting"], "jobs per second"),
        "types": lambda: _bars(summary, ["types_10_1", "types_10_8"], "jobs per second"),
        "growing": lambda: _growing(summary),
        "enqueue": lambda: _bars(summary, ["bulk", "single_48"], "jobs per second"),
        "latency": lambda: _bars(summary, ["pickup_p50", "pickup_p99"], "milliseconds", log=True),
        "trickle": lambda: _bars(summary, ["trickle_cpu", "trickle_p99"], "milliseconds", log=True),
        "held": lambda: _held(summary),
        "wal": lambda: _bars(summary, ["wal"], "bytes"),
    }
    made = []
    for name, plot in plots.items():
        figure = plot()
        if figure is not None:
            figure.savefig(folder / f"{name}.svg", transparent=True, bbox_inches="tight", metadata={"Date": None})
            plt.close(figure)
            made.append(name)
    return made


def _bars(summary: Summary, keys: list[str], label: str, log: bool = False) -> Any:
    found = [(key, values) for key in keys if (values := summary.values(key))]
    if not found:
        return None
    rows = max(len(values) for _, values in found)
    figure, places = plt.subplots(1, len(found), figsize=(4.6 * len(found), 1.1 + 0.28 * rows), squeeze=False)
    for place, (key, values) in zip(places[0], found, strict=True):
        _bar(place, summary, key, values, log)
        place.set_xlabel(label)
    known = {"Treadle": OURS, "on PostgreSQL": STORES["postgresql"], "on Redis": STORES["redis"], "no queue": REFERENCE}
    used = {_colour(summary, peer) for _, values in found for peer in values}
    marks = [Patch(color=colour, label=text) for text, colour in known.items() if colour in used]
    figure.tight_layout()
    figure.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=4, frameon=False, fontsize=9)
    return figure


def _bar(place: Any, summary: Summary, key: str, values: dict[str, Value], log: bool) -> None:
    better = BY_KEY[key].more_is_better
    # matplotlib draws bars from the bottom, so the best one is on top.
    peers = sorted(values, key=lambda peer: values[peer].middle, reverse=not better)
    middles = [values[peer].middle for peer in peers]
    spread = [
        [values[peer].middle - values[peer].least for peer in peers],
        [values[peer].most - values[peer].middle for peer in peers],
    ]
    bars = place.barh(
        [summary.shown(peer) for peer in peers],
        middles,
        color=[_colour(summary, peer) for peer in peers],
        xerr=spread,
        error_kw={"ecolor": INK, "elinewidth": 1},
        height=0.7,
    )
    place.bar_label(bars, labels=[_short(middle) for middle in middles], padding=6, fontsize=8, color=INK)
    place.set_title(BY_KEY[key].title + (" (lower is better)" if not better else ""), fontsize=10, loc="left")
    place.grid(visible=True, axis="x")
    place.xaxis.set_major_formatter("{x:,.0f}")
    place.margins(x=0.16)
    place.tick_params(length=0)
    if log:
        place.set_xscale("log")
        place.set_xlim(min(middles) / 2, max(value.most for value in values.values()) * 3)
        place.xaxis.set_major_formatter("{x:,g}")


def _held(summary: Summary) -> Any:
    lines = {peer: rounds[0] for peer in summary.peers if (rounds := summary.rounds(peer, "held"))}
    if not lines:
        return None
    figure, place = plt.subplots(figsize=(7.2, 4.2))
    colours = iter(LINES * 3)
    ends = []
    for peer, one in lines.items():
        ours = peer == "treadle"
        colour = OURS if ours else REFERENCE if peer == "bare" else next(colours)
        share = [rate / one["held"][0] for rate in one["held"]]
        place.plot(
            range(1, len(share) + 1), share, color=colour, linewidth=2.4 if ours else 1.3, marker="o", markersize=3
        )
        ends.append((share[-1], summary.shown(peer), colour, len(share)))
    # Labels at the ends of the lines, moved apart where they would overlap.
    lowest, highest = 0.0, max([1.2, *(end[0] for end in ends)])
    at = lowest - (highest - lowest) / 40
    for share, shown, colour, last in sorted(ends):
        at = max(share, at + (highest - lowest) / 22)
        place.annotate(
            shown, (last, share), xytext=(last + 0.25, at), textcoords="data", color=colour, fontsize=9, va="center"
        )
    place.set_ylim(lowest, highest)
    place.set_xlim(0.8, max(end[3] for end in ends) + 2.2)
    place.set_xticks(range(1, max(end[3] for end in ends) + 1))
    place.set_xlabel("drain, while one connection keeps a snapshot open")
    place.set_ylabel("rate, relative to the first drain")
    place.grid(visible=True, axis="y")
    return figure


def _growing(summary: Summary) -> Any:
    lines = {peer: rounds[0] for peer in summary.peers if (rounds := summary.rounds(peer, "growing"))}
    if not lines:
        return None
    figure, place = plt.subplots(figsize=(7.2, 4.2))
    colours = iter(LINES * 3)
    for peer, one in lines.items():
        ours = peer == "treadle"
        colour = OURS if ours else REFERENCE if peer == "bare" else next(colours)
        seconds = [(nth + 1) * one["interval"] for nth in range(len(one["rates"]))]
        place.plot(seconds, one["rates"], color=colour, linewidth=2.4 if ours else 1.3, label=summary.shown(peer))
    place.set_yscale("log")
    place.yaxis.set_major_formatter("{x:,g}")
    place.set_xlabel("seconds")
    place.set_ylabel("jobs per second")
    place.grid(visible=True, axis="y")
    place.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=9)
    return figure


def _colour(summary: Summary, peer: str) -> str:
    own = {"treadle": OURS, "bare": REFERENCE}
    return own.get(peer) or STORES.get(str(summary.about(peer).get("store")), INK)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"
