"""treadle dev: everything that a developer needs, in one terminal."""

import importlib.util
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import click

from treadle.cli.output import counted, say
from treadle.cli.programs import Program, Stopped, has_dashboard, prepared
from treadle.words.errors import TreadleError
from treadle.words.phrases import printable

PORT = 8000
# Files that changed and are named; the rest are counted.
NAMED = 3


@click.command()
@click.argument("app", envvar="TREADLE_APP")
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65_535), help="Of the dashboard.")
@click.option("--no-dashboard", is_flag=True, help="The worker alone.")
@click.option(
    "--watch",
    "folders",
    metavar="FOLDER",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    help="Where Python files are watched; may be given again. [default: the working folder]",
)
@click.option("--concurrency", default=10, show_default=True, type=click.IntRange(1, 10_000), help="Jobs at once.")
@click.option("--grace", default="5s", show_default=True, help="How long running jobs may finish before a new start.")
@click.option(
    "--log-level", default="info", show_default=True, type=click.Choice(["debug", "info", "warning", "error"])
)
@click.option("--database-url", metavar="URL", help="The database, if the application names none.")
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
    """Develop: the schema, a worker that starts again when a .py file changes, and the dashboard. Ctrl-C ends all.

    What cannot be imported is said, and tried again at the next change.

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
        say('no dashboard: run pip install "treadle[web]" to have one', stderr=True)
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
        self._told = False

    def run(self) -> None:
        """Until Ctrl-C or SIGTERM."""
        try:
            self._begin()
            for changed in changes(self._folders):
                if changed:
                    names = ", ".join(printable(name) for name in changed[:NAMED])
                    more = f" and {counted(len(changed) - NAMED, 'more file')}" if len(changed) > NAMED else ""
                    say(f"changed: {names}{more}; starting the worker again", stderr=True)
                    self._worker.stop()
                    self._begin()
                elif self._ready and self._worker.ended and not self._told:
                    self._told = True
                    say(f"the worker has ended ({self._worker.code}); it starts again at the next change", stderr=True)
        except (KeyboardInterrupt, Stopped):
            say("stopping", stderr=True)
        finally:
            self._end()

    def _begin(self) -> None:
        self._told = False
        if not self._ready:
            self._ready = self._prepare()
        if self._ready:
            self._worker.start()

    def _prepare(self) -> bool:
        """The schema, once the application can be imported; and the dashboard on its database."""
        database = prepared(self._app)
        if database is None:
            say("waiting for a change", stderr=True)
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
    """The Python files that changed; and, about twice a second, none."""
    from watchfiles import PythonFilter, watch

    found = watch(
        *folders,
        watch_filter=PythonFilter(),
        yield_on_timeout=True,
        rust_timeout=500,
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
    # A second one must not stop the stopping.
    signal.signal(number, signal.SIG_IGN)
    raise Stopped
