"""treadle watch."""

import sys
from collections.abc import Sequence
from uuid import UUID

import click
from rich.console import Console

from treadle.app.treadle import Treadle
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
    """Watch jobs with live progress bars until they finish.

    Without IDs, it watches all running jobs. The exit code is 0 if all jobs completed and 1 if one failed or was
    cancelled. Ctrl-C stops watching, not the jobs (exit code 130). Without a terminal, a line is printed per change.

    \b
    treadle watch 0199b1c2-7a3e-7c51-9d4b-2f6a8e0c1d35
    treadle watch | tee jobs.log
    """
    with opened(database_url, schema) as app:
        sys.exit(watch_jobs(screen(), app, job_ids(app, ids) or None))


def watch_jobs(console: Console, app: Treadle, ids: Sequence[UUID] | None) -> int:
    """Watch the jobs until they finish. Returns the exit code."""
    statuses = Viewer(app.database, app.watch, ids, console).run().values()
    if not statuses:
        console.print("No jobs are running.")
    if not all(status.finished for status in statuses):
        return INTERRUPTED  # 0 would claim that the jobs completed
    return int(Status.FAILED in statuses or Status.CANCELLED in statuses)
