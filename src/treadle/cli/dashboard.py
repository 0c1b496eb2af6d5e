"""treadle dashboard."""

import importlib
import importlib.util
import sys
from typing import Any

import click

from treadle.app.treadle import Treadle
from treadle.cli.options import database_url, schema
from treadle.cli.programs import has_dashboard
from treadle.words.errors import TreadleError


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=8000,
    show_default=True,
    type=click.IntRange(0, 65_535),
    help="Port to listen on; 0 picks a free one.",
)
@database_url
@schema
def dashboard(host: str, port: int, database_url: str | None, schema: str) -> None:
    """Serve the web dashboard.

    On a loopback address it needs no sign-in, and everyone on this machine can use it. On any other address, set
    secrets in the environment: TREADLE_DASHBOARD_OPERATOR for people who can change jobs, TREADLE_DASHBOARD_VIEWER for
    people who can only view them.

    \b
    treadle dashboard --port 8080
    TREADLE_DASHBOARD_OPERATOR=… treadle dashboard --host 0.0.0.0
    """
    if not has_dashboard():
        raise TreadleError('the dashboard needs a web server; run: pip install "treadle[web]"')
    server: Any = importlib.import_module("treadle.web.dashboard.server")
    has_secrets, addresses = server.has_secrets(), server.resolve(host)
    if not has_secrets and not all(map(server.is_loopback, addresses)):
        raise TreadleError(
            f"{host} can be reached from other machines, so the dashboard requires a sign-in: set "
            "TREADLE_DASHBOARD_OPERATOR (can change jobs) or TREADLE_DASHBOARD_VIEWER (can only view them) to "
            "secrets of at least 12 characters, or listen on 127.0.0.1"
        )
    app = Treadle(database_url, schema=schema)
    sys.exit(server.serve(app, addresses[0], port, has_secrets))
