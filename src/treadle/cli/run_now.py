"""treadle run-now."""

from typing import Any

import click

from treadle.cli.change import change_options, run
from treadle.words.changes import Action


@click.command("run-now")
@change_options
def run_now(**options: Any) -> None:
    """Make scheduled jobs due now.

    Applies to pending jobs that were enqueued for later, or that wait for their next attempt.

    Jobs given by ID are changed at once. With filters, a preview is shown and confirmation is asked for first.

    \b
    treadle run-now 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35
    treadle run-now --status pending --type import_rows
    """
    run(Action.RUN_NOW, options)
