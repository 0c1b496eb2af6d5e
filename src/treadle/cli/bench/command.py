"""treadle bench."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import click

from treadle.cli.bench.display import all_as_dict, show_all
from treadle.cli.bench.lanes import Spread
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
@click.option(
    "--types",
    default=10,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="Number of job types to compare with a single one.",
)
@click.option(
    "--lanes",
    type=click.IntRange(1, 100_000),
    help="Number of lanes that their jobs are spread over: job types in several queues. [default: one per job type]",
)
@click.option(
    "--processes",
    default=1,
    show_default=True,
    type=click.IntRange(1, 100),
    help="Number of worker processes for that comparison.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the raw figures as JSON.")
@database_url
def bench(
    jobs: int,
    rounds: int,
    types: int,
    lanes: int | None,
    processes: int,
    as_json: bool,
    database_url: str | None,
) -> None:
    """Measure the speed of the queue on this database.

    Measures round trips and commits of the server, single enqueues, the throughput and latency of a worker, the queue
    compared to bare SQL, and several job types compared to one; then advises what would make it faster. Takes about a
    minute. It uses a temporary schema, which is also dropped after Ctrl-C.

    \b
    treadle bench --jobs 50000 --database-url postgresql://localhost/app
    treadle bench --types 10 --lanes 100 --processes 8
    """
    spread = _spread(jobs, types, lanes)
    url = resolve(database_url).url
    with _quiet():
        if as_json:
            click.echo(json.dumps(all_as_dict(measure_all(url, jobs, rounds, spread, processes)), indent=2))
            return
        with screen(stderr=True).status("measuring") as status:
            figures = measure_all(
                url, jobs, rounds, spread, processes, lambda text: status.update(f"measuring: {text}")
            )
    show_all(screen(), figures)


def _spread(jobs: int, types: int, lanes: int | None) -> Spread:
    wanted = types if lanes is None else lanes
    if wanted < types:
        raise click.UsageError(
            f"--lanes {wanted} is less than --types {types}: each job type has at least one lane, "
            "and more with several queues"
        )
    if wanted > jobs:
        raise click.UsageError(f"--jobs {jobs} is less than --lanes {wanted}: each lane needs at least one job")
    return Spread(types, wanted)


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
