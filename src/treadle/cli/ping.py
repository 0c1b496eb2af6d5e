"""treadle ping."""

import http.client
import json
import time

import click

from treadle.cli.options import as_json, database_url, schema
from treadle.cli.output import print_json, say
from treadle.db.ping import ping as ping_database
from treadle.db.url import resolve
from treadle.words.duration import duration
from treadle.words.errors import TreadleError
from treadle.words.formatting import printable


@click.command()
@click.option("--health-port", type=click.IntRange(1, 65_535), help="Ask the worker that has this health port.")
@click.option("--health-host", default="127.0.0.1", show_default=True, help="Address of that worker.")
@click.option("--live", is_flag=True, help="Ask whether the worker is alive, not whether it is ready.")
@click.option("--timeout", default="5s", show_default=True, help="Time to wait for the answer.")
@as_json
@database_url
@schema
def ping(
    health_port: int | None,
    health_host: str,
    live: bool,
    timeout: str,
    as_json: bool,
    database_url: str | None,
    schema: str,
) -> None:
    """Check that the database answers, or that a worker is ready.

    The exit code is 0 if so, and 1 otherwise. Without --health-port it connects to the database and checks that the
    schema fits this version. With it, it asks a worker on this machine and needs no database.

    \b
    treadle ping
    treadle ping --health-port 8080
    """
    seconds = duration(timeout, "timeout").total_seconds()
    began = time.monotonic()
    if health_port is None:
        said = ping_database(resolve(database_url).url, schema, seconds)
    else:
        said = _ask(health_host, health_port, "/live" if live else "/ready", seconds)
    milliseconds = (time.monotonic() - began) * 1000
    if as_json:
        print_json({"ok": True, "answer": said, "milliseconds": round(milliseconds, 1)})
    else:
        say(f"{said} ({milliseconds:.0f} ms)")


def _ask(host: str, port: int, path: str, seconds: float) -> str:
    connection = http.client.HTTPConnection(host, port, timeout=seconds)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        said = printable(reply.read(1000).decode(errors="replace").strip())
    except (OSError, http.client.HTTPException) as error:
        raise TreadleError(f"no answer from {host}:{port}: {error}") from None
    finally:
        connection.close()
    if reply.status != http.client.OK:
        raise TreadleError(said or json.dumps(reply.status))
    return said
