"""treadle retry."""

from typing import Any

import click

from treadle.cli.change import change_options, run
from treadle.words.changes import Action


@click.command()
@change_options
def retry(**options: Any) -> None:
    """Run finished jobs again.

    A failed or cancelled job continues from its checkpoint and steps. A completed job starts from the beginning.

    Jobs given by ID are changed at once. With filters, a preview is shown and confirmation is asked for first.

    \b
    treadle retry 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35
    treadle retry --status failed --type import_rows --reason "the disk has room again"
    """
    run(Action.RETRY, options)
