"""Computes the shapes of the charts in a square of 100 by 100, which the templates draw as SVG."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from treadle.words.formatting import count, printable, span
from treadle.words.overview import Mark, Span

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
    status: str | None = None
    """Of the jobs that a click shows; None: of any status."""


class DrawnMark(NamedTuple):
    x: float
    at: datetime
    kind: str
    text: str


class Panel(NamedTuple):
    """All charts of one time window, with the numbers that they show."""

    charts: list[Chart]
    spans: list[Span]
    depths: list[int | None] | None
    """How many jobs waited, if a chart shows that."""
    step: float
    begin: datetime
    middle: datetime
    end: datetime
    """When the last span begins, which is not complete."""
    marks: list[DrawnMark]
    of: dict[str, str]
    """The parameters of the list of the jobs that are counted: type and queue."""

    def until(self, at: datetime) -> datetime:
        return at + timedelta(seconds=self.step)


def panel(
    spans: Sequence[Span],
    step: float,
    marks: Sequence[Mark] = (),
    depths: Sequence[int | None] | None = None,
    of: dict[str, str] | None = None,
    run_times: bool = False,
) -> Panel:
    charts = [_throughput(spans, step), _waiting(spans)]
    if run_times:
        charts.append(_running(spans))
    charts.append(_failures(spans))
    if depths is not None:
        charts.append(_depth(depths))
    begin, seconds = spans[0].at, step * len(spans)
    drawn = [
        DrawnMark(_round((each.at - begin).total_seconds() / seconds * 100), each.at, each.kind, printable(each.text))
        for each in marks
        if begin <= each.at < begin + timedelta(seconds=seconds)
    ]
    middle, end = spans[len(spans) // 2].at, spans[-1].at
    shown = None if depths is None else list(depths)
    return Panel(charts, list(spans), shown, step, begin, middle, end, drawn, of or {})


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
    kinds = (("done", "completed"),)
    return Chart("throughput", "Completed", "per minute", kinds, *_axis(top, _number), bars, [], summary, "completed")


def _waiting(spans: Sequence[Span]) -> Chart:
    p50, p95, p99 = ([getattr(each, f"waited_{name}") for each in spans] for name in ("p50", "p95", "p99"))
    most = [each.waited_most for each in spans]
    return _times("waiting", "Waiting time", "from due to claimed", "wait", p50, p95, p99, most)


def _running(spans: Sequence[Span]) -> Chart:
    p50, p95, p99 = ([getattr(each, f"ran_{name}") for each in spans] for name in ("p50", "p95", "p99"))
    most = [each.ran_most for each in spans]
    return _times("running-time", "Run time", "of completed jobs", "run", p50, p95, p99, most)


def _times(
    name: str,
    title: str,
    unit: str,
    what: str,
    p50: Sequence[float | None],
    p95: Sequence[float | None],
    p99: Sequence[float | None],
    most: Sequence[float | None],
) -> Chart:
    known = [each for each in p99 if each is not None]
    longest = max((each for each in most if each is not None), default=None)
    top = max(0.01, ceiling(max(known, default=0.0)))
    paths = [("p99", _steps(p99, top)), ("p95", _steps(p95, top)), ("p50", _steps(p50, top))]
    summary = "No jobs completed." if longest is None else f"The longest {what} was {brief(longest)}."
    if known:
        summary += f" The 99th percentile was {brief(max(known))} at most."
    kinds = (("p50", "p50"), ("p95", "p95"), ("p99", "p99"))
    return Chart(name, title, unit, kinds, *_axis(top, brief), [], paths, summary, "completed")


def _failures(spans: Sequence[Span]) -> Chart:
    stacks = [[("failed", each.failed), ("retried", max(0, each.errors - each.failed))] for each in spans]
    top = max(2.0, ceiling(max(sum(value for _, value in stack) for stack in stacks)))
    failed, errors = sum(each.failed for each in spans), sum(each.errors for each in spans)
    retried = max(0, errors - failed)
    summary = f"{count(failed)} jobs failed permanently; {count(retried)} failed attempts were retried."
    kinds = (("failed", "failed"), ("retried", "retried"))
    bars = _bars(stacks, top)
    return Chart("failures", "Failures", "attempts", kinds, *_axis(top, _number), bars, [], summary, "failed")


def _depth(depths: Sequence[int | None]) -> Chart:
    known = [each for each in depths if each is not None]
    top = max(2.0, ceiling(max(known, default=0)))
    summary = f"At most {count(max(known))} jobs waited." if known else "It was not counted how many jobs waited."
    bars = _bars([[("waiting", each or 0)] for each in depths], top)
    kinds = (("waiting", "waiting"),)
    return Chart("depth", "Waiting jobs", "highest in each span", kinds, *_axis(top, _number), bars, [], summary)


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
