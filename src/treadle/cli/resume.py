"""treadle resume."""

import sys

import click

from treadle.cli.options import actor, as_json, database_url, known_types, opened, reason, schema
from treadle.cli.output import print_json, say
from treadle.cli.pause import check_meant, meant
from treadle.db.queries import operations as operate
from treadle.words.changes import Pause


@click.command()
@click.option("--type", "job_type", metavar="TYPE", shell_complete=known_types, help="Jobs of this type.")
@click.option("--queue", metavar="NAME", help="Jobs in this queue; with --type, only those of that type.")
@click.option("--all", "everything", is_flag=True, help="Every pause that there is.")
@reason
@actor
@as_json
@database_url
@schema
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
    """End a pause as it was made, or, with --all, every pause.

    \b
    treadle resume --type import_rows
    treadle resume --all
    """
    if not (job_type or queue or everything):
        raise click.UsageError("what goes on? name it as it was paused, with --type, --queue or both; or --all")
    check_meant(job_type, queue, everything)
    with opened(database_url, schema) as app:
        there = app.database.run(operate.find_pauses())
        asked = [(each.job_type, each.queue) for each in there] if everything else [(job_type, queue)]
        ended = [each for each in asked if app.database.run(operate.resume(*each, actor, reason))]
        left = app.database.run(operate.find_pauses())
    if as_json:
        for each in ended:
            print_json({"job_type": each[0], "queue": each[1], "changed": True})
    else:
        for each in ended:
            say(f"{meant(*each)} go on" + _still(each, left))
    if not ended:
        known = ", ".join(meant(each.job_type, each.queue) for each in left) or "nothing"
        say(f"there is no such pause; paused: {known}", stderr=True)
        sys.exit(1)


def _still(ended: tuple[str | None, str | None], left: list[Pause]) -> str:
    """Another pause may hold the same jobs."""
    job_type, queue = ended
    others = [
        meant(each.job_type, each.queue)
        for each in left
        if each.job_type in (None, job_type) and each.queue in (None, queue)
    ]
    return f", but for another pause: {', '.join(others)}" if others else ""
