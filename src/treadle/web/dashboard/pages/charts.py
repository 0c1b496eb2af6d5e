"""Computes the shapes of the charts in a square of 100 by 100, which the templates draw as SVG."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from treadle.words.formatting import count, span
from treadle.words.overview import Span

HEIGHT = 100.0


class Bar(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    kind: str


class Chart(NamedTuple):
    name: str
    title: str
    unit: str
    kinds: tuple[tuple[str, str], ...]
    """For the legend: CSS class and label."""
    top: str
    middle: str
    bars: list[Bar]
    paths: list[tuple[str, str]]
    """CSS class and SVG path."""
    summary: str
    """The chart as a sentence, for screen readers."""


class Panel(NamedTuple):
    """All charts of one time window, with the numbers that they show."""

    charts: list[Chart]
    spans: list[Span]
    step: float
    begin: datetime
    middle: datetime
    end: datetime


def panel(spans: Sequence[Span], step: float) -> Panel:
    charts = [_throughput(spans, step), _waiting(spans), _failures(spans)]
    return Panel(charts, list(spans), step, spans[0].at, spans[len(spans) // 2].at, spans[-1].at)


def ceiling(value: float) -> float:
    """Rounds up to 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(each * power for each in (1, 2, 5, 10) if value <= each * power * 1.000001)


def _throughput(spans: Sequence[Span], step: float) -> Chart:
    rates = [each.completed * 60 / step for each in spans]
    top = max(2.0, ceiling(max(rates)))
    bars = _bars([[("done", rate)] for rate in rates], top)
    done = sum(each.completed for each in spans)
    summary = f"{count(done)} jobs completed, at most {_number(max(rates))} per minute."
    return Chart(
        "throughput", "Completed", "per minute", (("done", "completed"),), *_axis(top, _number), bars, [], summary
    )


def _waiting(spans: Sequence[Span]) -> Chart:
    most = [each.waited_most for each in spans]
    known = [each for each in most if each is not None]
    top = max(0.01, ceiling(max(known, default=0.0)))
    paths = [("most", _steps(most, top)), ("mean", _steps([each.waited for each in spans], top))]
    summary = f"The longest wait was {brief(max(known))}." if known else "No jobs completed."
    kinds = (("mean", "average"), ("most", "maximum"))
    return Chart("waiting", "Waiting time", "from due to claimed", kinds, *_axis(top, brief), [], paths, summary)


def _failures(spans: Sequence[Span]) -> Chart:
    stacks = [[("failed", each.failed), ("retried", max(0, each.errors - each.failed))] for each in spans]
    top = max(2.0, ceiling(max(sum(value for _, value in stack) for stack in stacks)))
    failed, errors = sum(each.failed for each in spans), sum(each.errors for each in spans)
    retried = max(0, errors - failed)
    summary = f"{count(failed)} jobs failed permanently; {count(retried)} failed attempts were retried."
    kinds = (("failed", "failed"), ("retried", "retried"))
    return Chart("failures", "Failures", "attempts", kinds, *_axis(top, _number), _bars(stacks, top), [], summary)


def _axis(top: float, label: Callable[[float], str]) -> tuple[str, str]:
    return label(top), label(top / 2)


def _bars(stacks: Sequence[Sequence[tuple[str, float]]], top: float) -> list[Bar]:
    width = HEIGHT / len(stacks)
    bars = []
    for nth, stack in enumerate(stacks):
        foot = HEIGHT
        for kind, value in stack:
            if value > 0:
                # At least 1.5 %, so that a single failure stays visible next to thousands of jobs.
                height = max(1.5, value / top * HEIGHT)
                foot -= height
                bars.append(
                    Bar(_round(nth * width + width * 0.1), _round(foot), _round(width * 0.8), _round(height), kind)
                )
    return bars


def _steps(values: Sequence[float | None], top: float) -> str:
    """A step line: one level per span, with gaps where there is no value."""
    width = HEIGHT / len(values)
    parts: list[str] = []
    drawing = False
    for nth, value in enumerate(values):
        if value is not None:
            y = _round(HEIGHT - value / top * HEIGHT)
            parts.append(f"V{y}" if drawing else f"M{_round(nth * width)} {y}")
            parts.append(f"H{_round((nth + 1) * width)}")
        drawing = value is not None
    return "".join(parts)


def _round(value: float) -> float:
    return round(value, 2)


def _number(value: float) -> str:
    return count(round(value)) if value >= 10 or value == round(value) else f"{value:.1f}"


def brief(seconds: float) -> str:
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms" if seconds >= 0.001 or not seconds else "<1ms"
    return span(seconds).replace(".0s", "s").replace("m 00s", "m").replace("h 00m", "h").replace("d 0h", "d")
