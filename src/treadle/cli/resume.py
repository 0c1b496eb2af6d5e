"""treadle resume."""

import sys

import click

from treadle.cli.options import opened
from treadle.cli.output import print_json, say
from treadle.cli.pause_scope import check_scope, describe_scope, pause_options
from treadle.db.queries import operations as operation_queries
from treadle.words.changes import Pause


@click.command()
@pause_options("All pauses.")
def resume(
    job_type: str | None,
    queue: str | None,
    everything: bool,
    reason: str | None,
    actor: str,
    as_json: bool,
    database_url: str | None,
    schema: str,
) -> None:
    """Resume jobs that were paused.

    Give the same --type and --queue as for treadle pause, or --all to end all pauses.

    \b
    treadle resume --type import_rows
    treadle resume --all
    """
    if job_type is None and queue is None and not everything:
        raise click.UsageError("give the --type and --queue of the pause, or --all to end all pauses")
    check_scope(job_type, queue, everything)
    with opened(database_url, schema) as app:
        pauses = app.database.run(operation_queries.find_pauses())
        chosen = [(each.job_type, each.queue) for each in pauses] if everything else [(job_type, queue)]
        ended = [each for each in chosen if app.database.run(operation_queries.resume(*each, actor, reason))]
        left = app.database.run(operation_queries.find_pauses())
    if as_json:
        for each in ended:
            print_json({"job_type": each[0], "queue": each[1], "changed": True})
    else:
        for each in ended:
            say(f"Resumed {describe_scope(*each)}{_still_paused(each, left)}.")
    if not ended:
        existing = "; ".join(describe_scope(each.job_type, each.queue) for each in left) or "nothing"
        say(f"No such pause. Paused: {existing}.", stderr=True)
        sys.exit(1)


def _still_paused(ended: tuple[str | None, str | None], left: list[Pause]) -> str:
    """Another pause may apply to the same jobs."""
    job_type, queue = ended
    others = [
        describe_scope(each.job_type, each.queue)
        for each in left
        if each.job_type in (None, job_type) and each.queue in (None, queue)
    ]
    return f"; some are still paused by another pause: {'; '.join(others)}" if others else ""
