"""treadle run-now."""

from typing import Any

import click

from treadle.cli.change import change, change_options
from treadle.words.changes import Action


@click.command("run-now")
@change_options
def run_now(**asked: Any) -> None:
    """Make pending jobs due that are due later, or are to be tried again later.

    Of jobs that are meant by filters there is a preview first, and a question; then they are changed in chunks.

    \b
    treadle run-now 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35
    treadle run-now --status pending --type import_rows
    """
    change(Action.RUN_NOW, asked)
