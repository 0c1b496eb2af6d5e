"""The commands. A user's mistake is one sentence and exit code 1 (2 for wrong arguments), never a traceback."""

import asyncio
import logging
import os
import sys
from typing import Any

import click
from rich.console import Console

from treadle.cli.bench import show_bench
from treadle.cli.demo import run_demo
from treadle.cli.watch import watch_jobs
from treadle.db.jobs import job_id
from treadle.db.migrations import migrate as apply_migrations
from treadle.db.migrations import migration_sql
from treadle.db.url import resolve
from treadle.words.errors import InvalidArgument, TreadleError
from treadle.words.naming import SCHEMA, schema_name
from treadle.worker.log import set_up
from treadle.worker.options import WorkerOptions
from treadle.worker.supervisor import Supervisor


class Commands(click.Group):
    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except TreadleError as error:
            raise click.ClickException(str(error)) from error


database_url = click.option(
    "--database-url",
    metavar="URL",
    help="The database. [default: TREADLE_DATABASE_URL, else DATABASE_URL, else the embedded server]",
)
schema = click.option(
    "--schema", envvar="TREADLE_SCHEMA", default=SCHEMA, show_default=True, help="The schema of the queue."
)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="treadle", prog_name="treadle")
def main() -> None:
    """Treadle: a job queue for Python on PostgreSQL alone."""
    logger = logging.getLogger("treadle")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
    logger.setLevel(logging.INFO)


@main.command()
@click.option("--sql", "only_print", is_flag=True, help="Print what would run, for psql, and change nothing.")
@database_url
@schema
def migrate(only_print: bool, database_url: str | None, schema: str) -> None:
    """Bring the schema up to date.

    Safe to run again, and from several machines at once.

    \b
    treadle migrate --database-url postgresql://localhost/app
    treadle migrate --sql > treadle.sql
    """
    schema_name(schema)
    url = resolve(database_url).url
    if only_print:
        click.echo(migration_sql(url, schema), nl=False)
        return
    applied = apply_migrations(url, schema)
    migrations = [name for name in applied if not name.endswith("()")]
    functions = len(applied) - len(migrations)
    if not applied:
        click.echo(f"schema {schema} is up to date")
        return
    parts = migrations + ([f"{functions} function{'s' * (functions > 1)}"] if functions else [])
    click.echo(f"schema {schema}: applied {', '.join(parts)}")


@main.command()
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


@main.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@database_url
@schema
def watch(ids: tuple[str, ...], database_url: str | None, schema: str) -> None:
    """Watch jobs with live bars until they have ended; without IDs, everything that runs.

    Ends with 0 if all have completed, and with 1 if one has failed or was cancelled. Ctrl-C only stops watching (130).
    Without a terminal it prints lines.

    \b
    treadle watch 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35
    treadle watch | tee jobs.log
    """
    try:
        wanted = [job_id(each) for each in ids] or None
    except InvalidArgument as error:
        raise click.BadParameter(str(error), param_hint="ID") from None
    sys.exit(watch_jobs(Console(), database_url, schema, wanted))


@main.command()
@click.option("--database-url", metavar="URL", help="The database. [default: the embedded server]")
def demo(database_url: str | None) -> None:
    """Watch the queue work: a worker and a dozen jobs of every kind, with live bars, until Ctrl-C.

    Without a terminal it is one round, and ends with 1 if something did not go as it should. In a schema of its own,
    treadle_demo, which is made anew each time.
    """
    sys.exit(run_demo(Console(), database_url))


@main.command()
@click.option("--jobs", default=20_000, show_default=True, type=click.IntRange(1000, 1_000_000), help="Jobs a round.")
@click.option(
    "--rounds", default=5, show_default=True, type=click.IntRange(1, 100), help="Rounds, after one to warm up."
)
@click.option("--json", "as_json", is_flag=True, help="Print the raw figures as JSON.")
@database_url
def bench(jobs: int, rounds: int, as_json: bool, database_url: str | None) -> None:
    """How fast is the queue here, next to bare SQL on the same server.

    In a schema of its own, which is dropped in the end.
    """
    show_bench(Console(), resolve(database_url).url, jobs, rounds, as_json)
