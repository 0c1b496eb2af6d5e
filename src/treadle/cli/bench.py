"""treadle bench: shows what measure.py found."""

import json
from dataclasses import asdict
from statistics import median

import click
from rich.console import Console
from rich.table import Table

from treadle.cli.measure import Report, measure
from treadle.cli.options import database_url
from treadle.db.url import resolve


@click.command()
@click.option("--jobs", default=20_000, show_default=True, type=click.IntRange(1000, 1_000_000), help="Jobs a round.")
@click.option(
    "--rounds", default=5, show_default=True, type=click.IntRange(1, 100), help="Rounds, after one to warm up."
)
@click.option("--json", "as_json", is_flag=True, help="Print the raw figures as JSON.")
@database_url
def bench(jobs: int, rounds: int, as_json: bool, database_url: str | None) -> None:
    """How fast is the queue here, next to bare SQL on the same server.

    In a schema of its own, which is dropped in the end.

    \b
    treadle bench --jobs 50000 --database-url postgresql://localhost/app
    """
    show_bench(Console(), resolve(database_url).url, jobs, rounds, as_json)


def show_bench(console: Console, url: str, jobs: int, rounds: int, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(as_dict(measure(url, jobs, rounds)), indent=2))
        return
    with console.status("measuring") as status:
        report = measure(url, jobs, rounds, said=lambda text: status.update(f"measuring: {text}"))
    show(console, report)


def as_dict(report: Report) -> dict[str, object]:
    figures = asdict(report)
    for measured, figure in zip(report.measures, figures["measures"], strict=True):
        figure["ratio"] = round(measured.ratio, 3)
    return figures


def show(console: Console, report: Report) -> None:
    console.print(f"PostgreSQL {report.server}, {report.jobs:,} jobs a round, medians\n")
    speed = Table("jobs per second", box=None, pad_edge=False)
    for heading in ("Treadle", "bare SQL", "ratio", "target"):
        speed.add_column(heading, justify="right")
    for measured in report.measures:
        style = "green" if measured.ratio >= measured.target else "red"
        speed.add_row(
            measured.name,
            f"{median(measured.ours):,.0f}",
            f"{median(measured.bare):,.0f}",
            f"[{style}]{measured.ratio:.2f}[/]",
            f"{measured.target:.2f}",
        )
    speed.add_row("prune", f"{report.prune_rate:,.0f}")
    console.print(speed)
    console.print()
    costs = Table("per job, all its life", box=None, pad_edge=False)
    for heading in ("WAL bytes", "statements", "transactions", "row versions"):
        costs.add_column(heading, justify="right")
    for cost in report.costs:
        costs.add_row(
            f"in batches of {cost.batch:,}",
            f"{cost.wal_bytes:,.0f}",
            f"{cost.statements:.3f}",
            f"{cost.transactions:.3f}",
            f"{cost.tuple_versions:.2f}",
        )
    console.print(costs)
