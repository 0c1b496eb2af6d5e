"""treadle signal."""

import json
import sys
from typing import Any

import click

from treadle.cli.options import actor, as_json, database_url, job_ids, opened, schema
from treadle.cli.output import print_json, say
from treadle.db.queries import workflows as workflow_queries
from treadle.words.formatting import printable


@click.command()
@click.argument("workflow", metavar="ID")
@click.argument("name")
@click.argument("value", required=False)
@actor
@as_json
@database_url
@schema
def signal(
    workflow: str, name: str, value: str | None, actor: str, as_json: bool, database_url: str | None, schema: str
) -> None:
    """Send a signal to a workflow that waits for it.

    ID is the workflow, or the step that waits, or will. VALUE is JSON, and becomes the result of the step. Only the
    first signal counts.

    \b
    treadle signal 0199b1c2 approved '{"by": "ann"}'
    """
    with opened(database_url, schema) as app:
        (job_id,) = job_ids(app, [workflow])
        taken = app.database.run(workflow_queries.send_signal(job_id, name, _json(value), actor))
    if as_json:
        print_json({"id": job_id, "signal": name, "taken": taken})
    elif taken:
        say(f"Sent the signal {printable(name)}.")
    else:
        say(f"Too late: the step has already received the signal {printable(name)}, or has ended.", stderr=True)
    if not taken:
        sys.exit(1)


def _json(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        raise click.UsageError(f'VALUE must be JSON, such as \'{{"by": "ann"}}\', got {text!r}') from None
