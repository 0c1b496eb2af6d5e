"""treadle watch."""

import io
import sys
from collections.abc import Sequence
from uuid import UUID

import click
from rich.console import Console

from treadle.app import Treadle
from treadle.app.viewer import Viewer
from treadle.cli.options import database_url, schema
from treadle.db.jobs import job_id
from treadle.words.errors import InvalidArgument
from treadle.words.status import Status

# As a shell says it of a program that Ctrl-C has ended: not that the jobs are fine.
STOPPED = 130


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
    try:
        wanted = [job_id(each) for each in ids] or None
    except InvalidArgument as error:
        raise click.BadParameter(str(error), param_hint="ID") from None
    sys.exit(watch_jobs(Console(), database_url, schema, wanted))


def watch_jobs(console: Console, url: str | None, schema: str, ids: Sequence[UUID] | None) -> int:
    """Until they have ended. Returns the exit code."""
    if isinstance(console.file, io.TextIOWrapper):
        # An event may hold a letter that this terminal has not.
        console.file.reconfigure(errors="replace")
    app = Treadle(url, schema=schema)
    try:
        statuses = Viewer(app, ids, console).run().values()
    finally:
        app.close()
    if not statuses:
        console.print("nothing is running")
    if not all(status.finished for status in statuses):
        return STOPPED
    return int(Status.FAILED in statuses or Status.CANCELLED in statuses)
