"""treadle cancel."""

from typing import Any

import click

from treadle.cli.change import change, change_options
from treadle.words.changes import Action


@click.command()
@change_options
def cancel(**asked: Any) -> None:
    """Cancel jobs that have not ended. A handler that runs is stopped.

    Of jobs that are meant by filters there is a preview first, and a question; then they are changed in chunks.

    \b
    treadle cancel 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35 --reason "no longer wanted"
    treadle cancel --status pending --type import_rows --dry-run
    """
    change(Action.CANCEL, asked)
