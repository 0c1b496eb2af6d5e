"""treadle retry."""

from typing import Any

import click

from treadle.cli.change import change, change_options
from treadle.words.changes import Action


@click.command()
@change_options
def retry(**asked: Any) -> None:
    """Run jobs again that have failed, were cancelled or have completed.

    What had failed goes on from its checkpoint and steps; what had completed begins anew.

    Of jobs that are meant by filters there is a preview first, and a question; then they are changed in chunks.

    \b
    treadle retry 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35
    treadle retry --status failed --type import_rows --reason "the disk has room again"
    """
    change(Action.RETRY, asked)
