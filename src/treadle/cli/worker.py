"""treadle worker."""

import asyncio
import os
import sys

import click

from treadle.cli.options import app_database_url, app_name, log_level
from treadle.worker.log_format import set_up
from treadle.worker.options import WorkerOptions
from treadle.worker.supervisor import Supervisor


@click.command()
@app_name
@click.option(
    "--processes", default=1, show_default=True, type=click.IntRange(1, 1000), help="Number of worker processes."
)
@click.option(
    "--concurrency",
    default=50,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="Jobs that each process runs at once.",
)
@click.option(
    "--children",
    type=click.IntRange(1, 1000),
    help="Child processes for process=True jobs, in each process. [default: one per core]",
)
@click.option("--types", metavar="A,B", help="Job types to run. [default: all types of the application]")
@click.option("--queues", metavar="A,B", help="Queues to run. [default: all]")
@click.option("--drain", is_flag=True, help="Exit when no job is due.")
@click.option("--grace", default="25s", show_default=True, help="Time that running jobs have to finish after SIGTERM.")
@click.option(
    "--lease", default="10s", show_default=True, help="Time without a renewal after which a worker loses its jobs."
)
@click.option(
    "--crash-limit",
    default=3,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="Number of crashes of its process after which a job fails.",
)
@click.option(
    "--max-jobs-per-process",
    metavar="N",
    type=click.IntRange(1),
    help="Replace a process that has run this many jobs, with jitter. [default: never]",
)
@click.option(
    "--max-memory", metavar="SIZE", help="Replace a process that uses more memory, with jitter. [default: never]"
)
@click.option(
    "--health-port",
    metavar="PORT",
    type=click.IntRange(0, 65_535),
    help="Answer /live, /ready and /metrics on this port. [default: none]",
)
@click.option("--health-host", metavar="ADDRESS", help="Address of the health port. [default: all]")
@click.option("--poll", default="1s", show_default=True, help="Interval of polling, in addition to notifications.")
@click.option("--no-listen", is_flag=True, help="Only poll, without LISTEN.")
@log_level
@click.option(
    "--log-format", default="text", show_default=True, type=click.Choice(["text", "json"]), help="Format of the log."
)
@app_database_url
def worker(  # noqa: PLR0913 - its options
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
    max_jobs_per_process: int | None,
    max_memory: str | None,
    health_port: int | None,
    health_host: str | None,
    poll: str,
    no_listen: bool,
    log_level: str,
    log_format: str,
    database_url: str | None,
) -> None:
    """Run the jobs of an application.

    APP names the application as module:attribute. On SIGTERM or Ctrl-C, running jobs have the grace period to finish;
    a second signal stops them at once.

    \b
    treadle worker shop.jobs:app --processes 4
    treadle worker shop.jobs:app --types mail,thumbnail --drain
    treadle worker shop.jobs:app --health-port 8080 --max-memory 1GB
    """
    if database_url:
        os.environ["TREADLE_DATABASE_URL"] = database_url
    options: WorkerOptions = {
        "concurrency": concurrency,
        "children": children or os.cpu_count() or 1,
        "types": _split(types),
        "queues": _split(queues),
        "drain": drain,
        "grace": grace,
        "lease": lease,
        "crash_limit": crash_limit,
        "poll": poll,
        "listen": not no_listen,
    }
    set_up(log_level, log_format)
    sys.exit(
        asyncio.run(
            Supervisor(
                app,
                processes,
                options,
                log_level,
                log_format,
                max_jobs_per_process,
                max_memory,
                None if health_port is None else (health_host or None, health_port),
            ).run()
        )
    )


def _split(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
