"""treadle pause."""

import click

from treadle.cli.options import actor, as_json, complete_job_types, database_url, opened, reason, schema
from treadle.cli.output import print_json, say
from treadle.cli.pauses import show_pauses
from treadle.db.queries import operations as operation_queries
from treadle.words.formatting import printable


@click.command()
@click.option("--type", "job_type", metavar="TYPE", shell_complete=complete_job_types, help="Jobs of this type.")
@click.option("--queue", metavar="NAME", help="Jobs in this queue; with --type, only those of that type.")
@click.option("--all", "everything", is_flag=True, help="All jobs.")
@reason
@actor
@as_json
@database_url
@schema
def pause(
    job_type: str | None,
    queue: str | None,
    everything: bool,
    reason: str | None,
    actor: str,
    as_json: bool,
    database_url: str | None,
    schema: str,
) -> None:
    """Stop starting jobs of a type, in a queue, or at all.

    Running jobs continue, and enqueued jobs wait. Without options, this command lists the pauses.

    \b
    treadle pause --type import_rows --reason "the disk is full"
    treadle pause --all
    """
    with opened(database_url, schema) as app:
        if not (job_type or queue or everything):
            show_pauses(app, as_json)
            return
        check_options(job_type, queue, everything)
        changed = app.database.run(operation_queries.pause(job_type, queue, actor, reason))
    if as_json:
        print_json({"job_type": job_type, "queue": queue, "changed": changed})
        return
    jobs = described(job_type, queue)
    options = (
        " ".join(f"--{name} {value}" for name, value in (("type", job_type), ("queue", queue)) if value) or "--all"
    )
    paused = f"Paused {jobs}" if changed else f"Already paused: {jobs}"
    say(f"{paused}. To resume: treadle resume {printable(options)}")


def check_options(job_type: str | None, queue: str | None, everything: bool) -> None:
    if everything and (job_type or queue):
        raise click.UsageError("--all cannot be combined with --type or --queue")


def described(job_type: str | None, queue: str | None) -> str:
    """all jobs of type mail in queue slow."""
    parts = [f"of type {printable(job_type)}"] if job_type else []
    parts += [f"in queue {printable(queue)}"] if queue else []
    return " ".join(["all jobs", *parts])
