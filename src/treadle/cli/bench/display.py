"""Prints the figures and the advice: bars on a terminal, plain lines in a pipe."""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import median

from rich.bar import Bar
from rich.console import Console
from rich.table import Table
from rich.text import Text

from treadle.cli.bench.advice import Advice, advise
from treadle.cli.bench.comparison import Report
from treadle.cli.bench.lanes import LaneComparison
from treadle.cli.bench.suite import Figures
from treadle.cli.output import heading, write

# Bars are not drawn if less than the minimum fits beside names and figures.
MIN_BAR, MAX_BAR = 10, 50


def as_dict(report: Report) -> dict[str, object]:
    figures = asdict(report)
    for measured, figure in zip(report.measures, figures["measures"], strict=True):
        figure["ratio"] = round(measured.ratio, 3)
    return figures


def all_as_dict(figures: Figures) -> dict[str, object]:
    return {
        **as_dict(figures.report),
        "server": asdict(figures.server),
        "singles": [asdict(each) for each in figures.singles],
        "worker_rate": figures.worker_rate,
        "pick_up": asdict(figures.pick_up),
        "lanes": {
            **asdict(figures.lanes),
            "drain_ratio": figures.lanes.drain_ratio,
            "claim_ratio": figures.lanes.claim_ratio,
        },
        "advice": [each._asdict() for each in advise(figures)],
    }


def show_all(console: Console, figures: Figures) -> None:
    server, report, latency = figures.server, figures.report, figures.pick_up
    write(console, f"PostgreSQL {server.version} at {server.where}, {report.jobs:,} jobs per round, medians")
    heading(console, "Server, in milliseconds")
    times = [("round trip", server.round_trip_ms), ("commit, without the round trip", server.commit_ms)]
    _bars(console, [(name, value, f"{value:,.2f}") for name, value in times], "cyan")
    heading(console, "From enqueue to start by an idle worker, in milliseconds")
    latencies = [("p50", latency.p50_ms), ("p95", latency.p95_ms), ("p99", latency.p99_ms)]
    _bars(console, [(name, value, f"{value:,.1f}") for name, value in latencies], "yellow")
    heading(console, "Jobs per second")
    rates = [
        (f"enqueue on {each.connections} connection{'s' * (each.connections > 1)}", each.rate)
        for each in figures.singles
    ]
    bulk, *batches = report.measures
    rates += [("enqueue_many", median(bulk.ours)), ("one worker process, no-op jobs", figures.worker_rate)]
    rates += [(each.name, median(each.ours)) for each in batches]
    rates += [("prune", report.prune_rate)]
    _bars(console, [(name, value, f"{value:,.0f}") for name, value in rates], "green")
    heading(console, "Compared to bare SQL")
    show(console, report)
    processes = _count(figures.lanes.processes, "worker process", "es")
    heading(console, f"One job type and several, {processes}")
    _show_lanes(console, figures.lanes)
    heading(console, "Advice")
    _show_advice(console, advise(figures))


def show(console: Console, report: Report) -> None:
    """The comparison to bare SQL."""
    speed = Table("jobs per second", box=None, pad_edge=False)
    for name in ("Treadle", "bare SQL", "ratio", "target"):
        speed.add_column(name, justify="right")
    for measured in report.measures:
        speed.add_row(
            measured.name,
            f"{median(measured.ours):,.0f}",
            f"{median(measured.bare):,.0f}",
            Text(f"{measured.ratio:.2f}", style="green" if measured.ratio >= measured.target else "red"),
            f"{measured.target:.2f}",
        )
    console.print(speed)
    console.print()
    costs = Table("cost of a job", box=None, pad_edge=False)
    for name in ("WAL bytes", "statements", "transactions", "row versions"):
        costs.add_column(name, justify="right")
    for cost in report.costs:
        costs.add_row(
            f"in batches of {cost.batch:,}",
            f"{cost.wal_bytes:,.0f}",
            f"{cost.statements:.3f}",
            f"{cost.transactions:.3f}",
            f"{cost.tuple_versions:.2f}",
        )
    console.print(costs)


def _show_lanes(console: Console, lanes: LaneComparison) -> None:
    table = Table("", box=None, pad_edge=False)
    for name in ("jobs per second", "ratio", "a claim of 10, ms", "ratio"):
        table.add_column(name, justify="right")
    for each, ratios in ((lanes.one, None), (lanes.several, (lanes.drain_ratio, lanes.claim_ratio))):
        if each:
            drain, claim = (f"{ratio:.2f}" if ratio else "" for ratio in ratios or (None, None))
            name = f"{_count(each.types, 'job type')} in {_count(each.lanes, 'lane')}"
            table.add_row(name, f"{each.drain_rate:,.0f}", drain, f"{each.claim_ms:,.2f}", claim)
    console.print(table)


def _count(number: int, noun: str, plural: str = "s") -> str:
    return f"{number:,} {noun}{plural * (number != 1)}"


def _bars(console: Console, rows: Sequence[tuple[str, float, str]], colour: str) -> None:
    """One bar for each row, scaled to the largest value."""
    names, figures = max(len(name) for name, *_ in rows), max(len(figure) for *_, figure in rows)
    width = min(MAX_BAR, console.width - names - figures - 6)
    drawn = console.is_terminal and not console.options.ascii_only and width >= MIN_BAR
    largest = max(value for _, value, _ in rows) or 1.0
    grid = Table.grid(padding=(0, 2))
    for name, value, figure in rows:
        if drawn:
            grid.add_row(
                f"  {name:<{names}}", f"{figure:>{figures}}", Bar(largest, 0, value, width=width, color=colour)
            )
        else:
            write(console, f"  {name:<{names}}  {figure:>{figures}}")
    if drawn:
        console.print(grid)


def _show_advice(console: Console, advice: Sequence[Advice]) -> None:
    if not advice:
        write(console, Text("  No advice: no figure and no setting stands out.", style="green"))
    for each in advice:
        write(console, f"  {each.found}")
        write(console, Text(f"  → {each.remedy}", style="green"))
