"""treadle dev: the schema, a worker and the dashboard in one terminal, for development."""

import importlib.util
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import click

from treadle.cli.options import app_database_url, app_name, log_level
from treadle.cli.output import counted, say
from treadle.cli.programs import Program, Stopped, has_dashboard, prepare_database
from treadle.words.errors import TreadleError
from treadle.words.formatting import printable

PORT = 8000
# Of the files that changed, this many are named; the others are counted.
NAMED = 3


@click.command()
@app_name
@click.option(
    "--port",
    default=PORT,
    show_default=True,
    type=click.IntRange(0, 65_535),
    help="Port of the dashboard; 0 picks a free one.",
)
@click.option("--no-dashboard", is_flag=True, help="Run the worker without the dashboard.")
@click.option(
    "--watch",
    "folders",
    metavar="FOLDER",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    help="Folder to watch for changed Python files; can be repeated. [default: the working folder]",
)
@click.option(
    "--concurrency",
    default=10,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="Number of jobs to run at once.",
)
@click.option(
    "--grace", default="5s", show_default=True, help="Time that running jobs have to finish before a restart."
)
@log_level
@app_database_url
def dev(
    app: str,
    port: int,
    no_dashboard: bool,
    folders: tuple[str, ...],
    concurrency: int,
    grace: str,
    log_level: str,
    database_url: str | None,
) -> None:
    """Run an application for development: restart the worker when code changes.

    Migrates the schema, runs a worker that restarts when a .py file changes, and serves the dashboard. An application
    that cannot be imported is imported again at the next change. Ctrl-C stops everything.

    \b
    treadle dev shop.jobs:app
    treadle dev shop.jobs:app --watch src --port 8080
    """
    if importlib.util.find_spec("watchfiles") is None:
        raise TreadleError('reloading needs a library that is not installed; run: pip install "treadle[dev]"')
    if database_url:
        os.environ["TREADLE_DATABASE_URL"] = database_url
    worker = ["worker", app, "--concurrency", str(concurrency), "--grace", grace, "--log-level", log_level]
    shown = None if no_dashboard or not has_dashboard() else port
    if shown is None and not no_dashboard:
        say('The dashboard is not installed; run: pip install "treadle[web]"', stderr=True)
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGHUP, _stop)
    Development(app, worker, shown, folders or (".",)).run()


class Development:
    def __init__(self, app: str, worker: list[str], port: int | None, folders: tuple[str, ...]) -> None:
        self._app = app
        self._folders = folders
        self._port = port
        self._worker = Program(worker)
        self._dashboard: Program | None = None
        self._ready = False
        self._end_reported = False

    def run(self) -> None:
        """Returns after Ctrl-C or SIGTERM."""
        try:
            found = changes(self._folders)
            next(found)  # from now on changes are noticed, also while the application is loaded
            self._begin()
            for changed in found:
                if changed:
                    names = ", ".join(printable(name) for name in changed[:NAMED])
                    more = f" and {counted(len(changed) - NAMED, 'more file')}" if len(changed) > NAMED else ""
                    say(f"Changed: {names}{more}. Restarting the worker.", stderr=True)
                    self._worker.stop()
                    self._begin()
                elif self._ready and self._worker.ended and not self._end_reported:
                    self._end_reported = True
                    code = self._worker.code
                    say(f"The worker exited with code {code}. It restarts at the next change.", stderr=True)
        except (KeyboardInterrupt, Stopped):
            say("Stopping.", stderr=True)
        finally:
            self._end()

    def _begin(self) -> None:
        self._end_reported = False
        if not self._ready:
            self._ready = self._prepare()
        if self._ready:
            self._worker.start()

    def _prepare(self) -> bool:
        """Migrate the schema and start the dashboard. False if the application cannot be imported."""
        database = prepare_database(self._app)
        if database is None:
            say("Waiting for a change.", stderr=True)
            return False
        if self._port is not None:
            where = ["--port", str(self._port), "--schema", database.schema]
            self._dashboard = Program(["dashboard", *where], {"TREADLE_DATABASE_URL": database.url})
            self._dashboard.start()
        return True

    def _end(self) -> None:
        running = [each for each in (self._worker, self._dashboard) if each is not None]
        for each in running:
            each.ask_to_stop()
        for each in running:
            each.stop()


def changes(folders: tuple[str, ...]) -> Iterator[list[str]]:
    """Yields the Python files that changed, and an empty list every 0.1 s without a change."""
    from watchfiles import PythonFilter, watch

    found = watch(
        *folders,
        watch_filter=PythonFilter(),
        yield_on_timeout=True,
        rust_timeout=100,
        raise_interrupt=True,
        stop_event=threading.Event(),
    )
    for some in found:
        yield sorted({_named(path) for _, path in some})


def _named(path: str) -> str:
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


def _stop(number: int, frame: FrameType | None) -> None:
    # A second signal must not interrupt the shutdown.
    signal.signal(number, signal.SIG_IGN)
    raise Stopped
