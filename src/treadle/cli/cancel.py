"""treadle cancel."""

from typing import Any

import click

from treadle.cli.change import change_options, run
from treadle.words.changes import Action


@click.command()
@change_options
def cancel(**options: Any) -> None:
    """Cancel jobs that have not finished.

    A running handler is stopped.

    Jobs given by ID are changed at once. With filters, a preview is shown and confirmation is asked for first.

    \b
    treadle cancel 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35 --reason "no longer wanted"
    treadle cancel --status pending --type import_rows --dry-run
    """
    run(Action.CANCEL, options)
