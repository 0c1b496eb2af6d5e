"""treadle bench."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import click

from treadle.cli.bench.display import all_as_dict, show_all
from treadle.cli.bench.suite import measure_all
from treadle.cli.options import database_url
from treadle.cli.output import screen
from treadle.db.url import resolve


@click.command()
@click.option(
    "--jobs", default=20_000, show_default=True, type=click.IntRange(1000, 1_000_000), help="Number of jobs per round."
)
@click.option(
    "--rounds",
    default=3,
    show_default=True,
    type=click.IntRange(1, 100),
    help="Number of rounds, after a warm-up round.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the raw figures as JSON.")
@database_url
def bench(jobs: int, rounds: int, as_json: bool, database_url: str | None) -> None:
    """Measure the speed of the queue on this database.

    Measures round trips and commits of the server, single enqueues, the throughput and latency of a worker, and the
    queue compared to bare SQL; then advises what would make it faster. Takes about a minute. It uses a temporary
    schema, which is also dropped after Ctrl-C.

    \b
    treadle bench --jobs 50000 --database-url postgresql://localhost/app
    """
    url = resolve(database_url).url
    with _quiet():
        if as_json:
            click.echo(json.dumps(all_as_dict(measure_all(url, jobs, rounds)), indent=2))
            return
        with screen(stderr=True).status("measuring") as status:
            figures = measure_all(url, jobs, rounds, lambda text: status.update(f"measuring: {text}"))
    show_all(screen(), figures)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the log of the worker, and the warnings of connection pools about Ctrl-C."""
    loggers = {logging.getLogger("treadle"): logging.WARNING, logging.getLogger("psycopg"): logging.ERROR}
    before = {each: each.level for each in loggers}
    for each, level in loggers.items():
        each.setLevel(level)
    try:
        yield
    finally:
        for each, level in before.items():
            each.setLevel(level)
