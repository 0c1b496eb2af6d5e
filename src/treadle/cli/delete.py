"""treadle delete."""

from typing import Any

import click

from treadle.cli.change import change_options, run
from treadle.words.changes import Action


@click.command()
@change_options
def delete(**options: Any) -> None:
    """Delete jobs with their events and logs.

    A running job cannot be deleted; cancel it first.

    Jobs given by ID are changed at once. With filters, a preview is shown, and you are asked to type
    the number of jobs.

    \b
    treadle delete 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35
    treadle delete --status cancelled --queue slow --yes
    """
    run(Action.DELETE, options)
