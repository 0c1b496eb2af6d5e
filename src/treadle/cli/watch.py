"""treadle watch."""

import sys
from collections.abc import Sequence
from uuid import UUID

import click
from rich.console import Console

from treadle.app import Treadle
from treadle.cli.commands import INTERRUPTED
from treadle.cli.options import database_url, job_ids, opened, schema
from treadle.cli.output import screen
from treadle.watching.viewer import Viewer
from treadle.words.status import Status


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@database_url
@schema
def watch(ids: tuple[str, ...], database_url: str | None, schema: str) -> None:
    """Watch jobs with live bars until they have ended; without IDs, everything that runs.

    Ends with 0 if all have completed, and with 1 if one has failed or was cancelled. Ctrl-C only stops watching (130).
    Without a terminal it prints lines.

    \b
    treadle watch 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35
    treadle watch | tee jobs.log
    """
    with opened(database_url, schema) as app:
        sys.exit(watch_jobs(screen(), app, job_ids(app, ids) or None))


def watch_jobs(console: Console, app: Treadle, ids: Sequence[UUID] | None) -> int:
    """Until they have ended. Returns the exit code."""
    statuses = Viewer(app.database, app.watch, ids, console).run().values()
    if not statuses:
        console.print("nothing is running")
    if not all(status.finished for status in statuses):
        return INTERRUPTED  # not that the jobs are fine
    return int(Status.FAILED in statuses or Status.CANCELLED in statuses)
