"""Treadle's commands as child processes, for treadle dev and treadle demo. Run as a module, it migrates the schema."""

import importlib.util
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from treadle.app.load import load_app
from treadle.cli.output import say
from treadle.db.url import resolve
from treadle.settings import without_settings
from treadle.text.masking import masked
from treadle.words.errors import TreadleError

# Seconds after which a program that does not stop is killed. Longer than the grace period of its jobs.
STOP_SECONDS = 40.0


class Stopped(BaseException):
    """Raised by a signal that asks this process to stop."""


class Program:
    """A command as a child process. It has its own session, so that Ctrl-C reaches it once, and only through us. It
    stops when this process ends."""

    def __init__(
        self,
        arguments: list[str],
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
        settings: bool = True,
    ) -> None:
        """It logs to our standard error, or to the file `log`. Without `settings`, it has only the options given."""
        self._settings = settings
        self._log = log
        self._arguments = arguments
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False

    def start(self) -> None:
        self._stopping = False
        with nullcontext() if self._log is None else self._log.open("w") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "treadle.cli.program", str(os.getpid()), *self._arguments],
                env={**self._inherited(), **self._environment},
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stderr=output,
            )

    def _inherited(self) -> Mapping[str, str]:
        return os.environ if self._settings else without_settings(self._arguments[0], os.environ)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def ended(self) -> bool:
        return self.code is not None

    def ask_to_stop(self) -> None:
        if self._process is not None and not self.ended and not self._stopping:
            self._stopping = True
            self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Ask it to stop and wait for it. A second Ctrl-C sends SIGTERM again: then it does not wait for jobs."""
        if self._process is None:
            return
        self.ask_to_stop()
        while True:
            try:
                self._process.wait(STOP_SECONDS)
            except KeyboardInterrupt:
                self._process.send_signal(signal.SIGTERM)
            except subprocess.TimeoutExpired:
                self._process.kill()
            else:
                return


def has_dashboard() -> bool:
    """Whether the extra treadle[web] is installed."""
    return all(importlib.util.find_spec(name) for name in ("uvicorn", "starlette", "jinja2", "itsdangerous"))


class PreparedDatabase(NamedTuple):
    """The database of an application, with its schema migrated."""

    url: str
    schema: str


def prepare_database(spec: str) -> PreparedDatabase | None:
    """Migrate the schema of an application. None if the application cannot be imported or the database cannot be
    reached; the error has been printed.

    This runs in a child process: this process imports none of the user's code, and so never has an outdated version of
    it.
    """
    done = subprocess.run(
        [sys.executable, "-m", "treadle.cli.programs", spec],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return None
    printed = json.loads(done.stdout.splitlines()[-1])
    if printed["embedded"]:
        # This process keeps the embedded server running. The other programs find it through the environment.
        os.environ["TREADLE_DATABASE_URL"] = resolve(None).url
    return PreparedDatabase(printed["url"], printed["schema"])


def main(spec: str) -> int:
    # The parent process prints which server is used.
    logging.getLogger("treadle").setLevel(logging.ERROR)
    try:
        app = load_app(spec)
        target = app.database.migrate()
    except TreadleError as error:
        say(f"Error: {masked(str(error))}", stderr=True)
        return 1
    print(json.dumps({"url": target.url, "embedded": target.embedded, "schema": app.schema}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
