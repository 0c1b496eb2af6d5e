"""treadle worker."""

import asyncio
import os
import sys

import click

from treadle.worker.log_format import set_up
from treadle.worker.options import WorkerOptions
from treadle.worker.supervisor import Supervisor


@click.command()
@click.argument("app", envvar="TREADLE_APP")
@click.option("--processes", default=1, show_default=True, type=click.IntRange(1, 1000), help="Worker processes.")
@click.option(
    "--concurrency", default=50, show_default=True, type=click.IntRange(1, 10_000), help="Jobs at once in each process."
)
@click.option(
    "--children", type=click.IntRange(1, 1000), help="Child processes for process=True jobs. [default: one per core]"
)
@click.option("--types", metavar="A,B", help="Only these job types. [default: all that the application knows]")
@click.option("--queues", metavar="A,B", help="Only these queues. [default: all]")
@click.option("--drain", is_flag=True, help="End when nothing is left to do.")
@click.option("--grace", default="25s", show_default=True, help="How long running jobs may finish at SIGTERM.")
@click.option("--lease", default="10s", show_default=True, help="A worker silent for longer loses its jobs to others.")
@click.option(
    "--crash-limit",
    default=3,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="A job that takes its process down so often has failed.",
)
@click.option("--poll", default="1s", show_default=True, help="How often to look without being told.")
@click.option("--no-listen", is_flag=True, help="Poll alone, without LISTEN.")
@click.option(
    "--log-level",
    default="info",
    show_default=True,
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="debug has a line for every job.",
)
@click.option("--log-format", default="text", show_default=True, type=click.Choice(["text", "json"]))
@click.option("--database-url", metavar="URL", help="The database, if the application names none.")
def worker(
    app: str,
    processes: int,
    concurrency: int,
    children: int | None,
    types: str | None,
    queues: str | None,
    drain: bool,
    grace: str,
    lease: str,
    crash_limit: int,
    poll: str,
    no_listen: bool,
    log_level: str,
    log_format: str,
    database_url: str | None,
) -> None:
    """Run the jobs of an application, named as module:app.

    SIGTERM and Ctrl-C let running jobs finish; a second one does not wait.

    \b
    treadle worker shop.jobs:app --processes 4
    treadle worker shop.jobs:app --types mail,thumbnail --drain
    """
    if database_url:
        os.environ["TREADLE_DATABASE_URL"] = database_url
    options: WorkerOptions = {
        "concurrency": concurrency,
        "children": children or os.cpu_count() or 1,
        "types": _listed(types),
        "queues": _listed(queues),
        "drain": drain,
        "grace": grace,
        "lease": lease,
        "crash_limit": crash_limit,
        "poll": poll,
        "listen": not no_listen,
    }
    set_up(log_level, log_format)
    sys.exit(asyncio.run(Supervisor(app, processes, options, log_level, log_format).run()))


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
