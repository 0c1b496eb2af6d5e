"""treadle copy."""

from typing import Any

import click

from treadle.cli.edit import edit_from, edit_options
from treadle.cli.output import print_json, say, screen
from treadle.jobs import edits


@click.command()
@edit_options
def copy(**options: Any) -> None:
    """Enqueue a new job like another one.

    It has the type, queue, priority, key and arguments of the other job, except for the arguments that are named. It is
    not unique, no part of a workflow, and waits for no other job. In a pipe, only its id is printed.

    \b
    treadle copy 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35
    treadle copy 0c1d35 user_id=8 --app shop.jobs:app
    """
    with edit_from(options) as given:
        queries = edits.copy(given.app.backend, given.job, given.arguments, given.author)
        made = given.app.database.run_together(queries)[-1]
    if options["as_json"]:
        print_json({"id": made, "copy_of": given.job.id, "job_type": given.job.job_type})
    elif screen().is_terminal:
        say(f"Enqueued {given.job.job_type} {made}, a copy of {given.job.id}.")
    else:
        say(str(made))
