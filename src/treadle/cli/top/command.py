"""treadle top."""

import asyncio
import importlib.util
import io
import logging
import os
import signal
import sys
from contextlib import suppress

import click

from treadle.app.treadle import Treadle
from treadle.cli.options import database_url, schema
from treadle.db.url import described
from treadle.words.connections import Connections

# Closing connections can take forever when the database is unreachable.
CLOSING_SECONDS = 2.0


@click.command()
@database_url
@schema
def top(database_url: str | None, schema: str) -> None:
    """Monitor the whole queue live on one screen.

    Shows rates, waiting jobs, workers and running jobs with their progress, and has keys to sort, filter, pause a job
    type, cancel or retry a job, and show its details. Press ? for help and q to quit. Requires the extra
    "treadle[top]".

    \b
    treadle top
    treadle top --database-url postgresql://shop@db.example.org/shop
    """
    if importlib.util.find_spec("textual") is None:
        raise click.ClickException('treadle top needs a library that is not installed; run: pip install "treadle[top]"')
    # Textual reads keys from standard input and draws on standard error.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)) or os.environ.get("TERM") == "dumb":
        raise click.ClickException(
            "treadle top needs a terminal; use treadle stats or treadle watch in a pipe or a script"
        )
    app = Treadle(database_url, schema=schema, connections=Connections(pool_size=2))
    try:
        asyncio.run(_show(app))
    finally:
        app.close()


async def _show(app: Treadle) -> None:
    """Returns when the user quits."""
    # Imported here because importing Textual takes most of a second.
    from treadle.cli.top.queue import QueueScreen
    from treadle.cli.top.refresh import Refresher
    from treadle.cli.top.screen import Top

    if isinstance(sys.__stderr__, io.TextIOWrapper):
        # A stage may contain characters that the terminal's encoding lacks.
        sys.__stderr__.reconfigure(errors="replace")
    # The header says when the connection is lost. The driver's warnings would garble the screen.
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    refresher = Refresher(app)
    try:
        first = await refresher.first_snapshot()
        screen = Top(app, refresher, described(app.database.url), QueueScreen(first))
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            # An orderly exit, which restores the terminal.
            asyncio.get_running_loop().add_signal_handler(number, screen.exit)
        # Without mouse support, text can be selected and copied as in any terminal.
        await screen.run_async(mouse=False)
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await app.aclose()
