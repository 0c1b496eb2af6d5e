"""treadle delete."""

from typing import Any

import click

from treadle.cli.change import change, change_options
from treadle.words.changes import Action


@click.command()
@change_options
def delete(**asked: Any) -> None:
    """Delete jobs, with their events and logs. One that runs has to be cancelled first.

    Of jobs that are meant by filters there is a preview first, and a question; then they are changed in chunks.

    \b
    treadle delete 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35
    treadle delete --status cancelled --queue slow --yes
    """
    change(Action.DELETE, asked)
