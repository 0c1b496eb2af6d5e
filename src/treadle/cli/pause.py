"""treadle pause."""

import click

from treadle.cli.options import opened
from treadle.cli.output import print_json, say
from treadle.cli.pause_scope import check_scope, describe_scope, pause_options
from treadle.cli.pauses import show_pauses
from treadle.db.queries import operations as operation_queries
from treadle.words.formatting import printable


@click.command()
@pause_options("All jobs.")
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
        if job_type is None and queue is None and not everything:
            show_pauses(app, as_json)
            return
        check_scope(job_type, queue, everything)
        changed = app.database.run(operation_queries.pause(job_type, queue, actor, reason))
    if as_json:
        print_json({"job_type": job_type, "queue": queue, "changed": changed})
        return
    jobs = describe_scope(job_type, queue)
    options = (
        " ".join(f"--{name} {value}" for name, value in (("type", job_type), ("queue", queue)) if value) or "--all"
    )
    paused = f"Paused {jobs}" if changed else f"Already paused: {jobs}"
    say(f"{paused}. To resume: treadle resume {printable(options)}")
