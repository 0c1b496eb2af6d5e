"""The command."""

import asyncio
import importlib.util
import io
import logging
import os
import signal
import sys
from contextlib import suppress

import click

from treadle.app import Treadle
from treadle.cli.options import database_url, schema
from treadle.db.url import described

# The database may be away: nobody waits for it to say goodbye.
CLOSING_SECONDS = 2.0


@click.command()
@database_url
@schema
def top(database_url: str | None, schema: str) -> None:
    """The whole queue on one screen, live: rates, lanes, workers, running jobs with their bars.

    Keys to sort, filter, pause a job type, cancel or retry a job, and look into one; ? lists them, q quits. Needs the
    extra: pip install "treadle[top]".

    \b
    treadle top
    treadle top --database-url postgresql://shop@db.example.org/shop
    """
    if importlib.util.find_spec("textual") is None:
        raise click.ClickException('treadle top needs a library that is not installed; run: pip install "treadle[top]"')
    # The library reads keys from the first and draws on the last.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)) or os.environ.get("TERM") == "dumb":
        raise click.ClickException(
            "treadle top draws on a terminal, and this is none; for a pipe there are: treadle stats, treadle watch"
        )
    app = Treadle(database_url, schema=schema, pool_size=2)
    try:
        asyncio.run(_show(app))
    finally:
        app.close()


async def _show(app: Treadle) -> None:
    """Until it is quit."""
    # Here, because it takes most of a second.
    from treadle.cli.top.looks import Looks
    from treadle.cli.top.queue import QueueScreen
    from treadle.cli.top.screen import Top

    if isinstance(sys.__stderr__, io.TextIOWrapper):
        # A stage may hold a letter that this terminal has not.
        sys.__stderr__.reconfigure(errors="replace")
    # The driver warns of what the first line of the screen says, also after the end.
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    looks = Looks(app)
    try:
        first = await looks.first()
        screen = Top(app, looks, described(app.database.url), QueueScreen(first))
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            # Left by the door, so that the terminal is as it was.
            asyncio.get_running_loop().add_signal_handler(number, screen.exit)
        # Without the mouse, text can be marked and copied as in any terminal.
        await screen.run_async(mouse=False)
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await app.aclose()
