"""treadle priority."""

from typing import Any

import click

from treadle.cli.change import change_options, run
from treadle.words.changes import Action


@click.command()
@click.argument("priority", metavar="N", type=click.IntRange(-(2**31) + 1, 2**31 - 1))
@change_options
def priority(priority: int, **options: Any) -> None:
    """Change the priority of jobs that have not finished.

    Jobs with a higher priority run first. For a running job, the new priority applies to its next attempt.

    Jobs given by ID are changed at once. With filters, a preview is shown and confirmation is asked for first.

    \b
    treadle priority 150 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35
    treadle priority 30 --status pending --type import_rows
    """
    run(Action.PRIORITY, options, priority)
