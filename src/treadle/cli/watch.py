"""treadle watch."""

import io
from collections.abc import Sequence
from uuid import UUID

from rich.console import Console

from treadle.app import Treadle
from treadle.app.viewer import Viewer
from treadle.words.status import Status

# As a shell says it of a program that Ctrl-C has ended: not that the jobs are fine.
STOPPED = 130


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
