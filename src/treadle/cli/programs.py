"""Our own commands as processes, for treadle dev and demo; and, run as a module, the first of them."""

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
from treadle.words.errors import TreadleError

# Longer than any grace that is left of a stop; then it is killed.
PATIENCE = 40.0


class Stopped(BaseException):
    """Somebody wants us to end."""


class Program:
    """One of our commands. In a session of its own, so that Ctrl-C reaches it by us alone, and once."""

    def __init__(
        self, arguments: list[str], environment: Mapping[str, str] | None = None, log: Path | None = None
    ) -> None:
        """What it logs goes to where ours does, or to a file."""
        self._log = log
        self._command = [sys.executable, "-m", "treadle", *arguments]
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = False

    def start(self) -> None:
        self._asked = False
        with nullcontext() if self._log is None else self._log.open("w") as output:
            self._process = subprocess.Popen(
                self._command,
                env=os.environ | self._environment,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stderr=output,
            )

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code, if it has ended."""
        return None if self._process is None else self._process.poll()

    @property
    def ended(self) -> bool:
        return self.code is not None

    def ask_to_stop(self) -> None:
        if self._process is not None and not self.ended and not self._asked:
            self._asked = True
            self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Ask, and wait until it has ended. A second Ctrl-C asks again: then it waits for no job."""
        if self._process is None:
            return
        self.ask_to_stop()
        while True:
            try:
                self._process.wait(PATIENCE)
            except KeyboardInterrupt:
                self._process.send_signal(signal.SIGTERM)
            except subprocess.TimeoutExpired:
                self._process.kill()
            else:
                return


def has_dashboard() -> bool:
    """The extra treadle[web] is installed."""
    return all(importlib.util.find_spec(name) for name in ("uvicorn", "starlette", "jinja2", "itsdangerous"))


class Prepared(NamedTuple):
    """The database of the application, with its schema up to date."""

    url: str
    schema: str


def prepared(spec: str) -> Prepared | None:
    """None: the application cannot be imported, or the database cannot be reached; that was said.

    In a process of its own: this one imports none of the user's code, and so never has an old version of it.
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
    told = json.loads(done.stdout.splitlines()[-1])
    if told["embedded"]:
        # Ours as long as we run; the others are told where it is.
        os.environ["TREADLE_DATABASE_URL"] = resolve(None).url
    return Prepared(told["url"], told["schema"])


def main(spec: str) -> int:
    # Who started us says which server it is.
    logging.getLogger("treadle").setLevel(logging.ERROR)
    try:
        app = load_app(spec)
        target = app.database.migrate()
    except TreadleError as error:
        say(f"Error: {error}", stderr=True)
        return 1
    print(json.dumps({"url": target.url, "embedded": target.embedded, "schema": app.schema}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
