"""treadle priority."""

from typing import Any

import click

from treadle.cli.change import change, change_options
from treadle.words.changes import Action


@click.command()
@click.argument("priority", metavar="N", type=click.IntRange(-(2**31) + 1, 2**31 - 1))
@change_options
def priority(priority: int, **asked: Any) -> None:
    """Give jobs that have not ended another priority: higher runs first.

    One that runs has it if it is tried again.

    Of jobs that are meant by filters there is a preview first, and a question; then they are changed in chunks.

    \b
    treadle priority 150 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35
    treadle priority 30 --status pending --type import_rows
    """
    change(Action.PRIORITY, asked, priority)
