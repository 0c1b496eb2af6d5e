"""The wheel, and virtual environments that have it and nothing of this project's own environment."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from treadle.db.embedded import embedded_url, leave

ROOT = Path(__file__).parents[2]
# For what takes less than one, if the machine is not busy.
SECONDS = 60


def build_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = folder.glob("treadle-*.whl")
    return wheel


class Skipped(Exception):
    """Something is not there that this integration needs."""


class Environment:
    """A virtual environment with what `pip install …` was told, where treadle means the wheel."""

    def __init__(self, folder: Path, wheel: Path, requirements: list[str], python: Path | str = sys.executable) -> None:
        self.folder = folder
        # The pip of our own environment installs into it.
        subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(self.program("python")), "install", "-qq"]
        command = [*pip, "--disable-pip-version-check", *from_wheel(wheel, requirements)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def program(self, name: str) -> Path:
        return self.folder / "bin" / name

    def variables(self) -> dict[str, str]:
        """Of our own settings, a program sees only those that are given to it."""
        return inherited()

    def run(self, command: list[str], cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of this environment."""
        return subprocess.run(
            [str(self.program(command[0])), *command[1:]],
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
            cwd=cwd,
            env=self.variables() | variables,
        )

    def succeed(self, command: list[str], cwd: Path, **variables: str) -> str:
        """Run a program that must succeed, and return what it printed."""
        done = self.run(command, cwd, **variables)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def start(self, command: list[str], cwd: Path, log: Path, **variables: str) -> Iterator["subprocess.Popen[bytes]"]:
        """A program in the background, which writes to the log. It is killed if it still runs in the end."""
        with log.open("w") as output:
            process = subprocess.Popen(
                [str(self.program(command[0])), *command[1:]],
                cwd=cwd,
                env=self.variables() | variables,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        with process:
            try:
                yield process
            except BaseException as error:
                error.add_note(f"{' '.join(command)}:\n{log.read_text()}")
                raise
            finally:
                process.kill()


class ThisEnvironment(Environment):
    """Our own environment, with the sources instead of the wheel: for the short form in the suite."""

    def __init__(self) -> None:
        self.folder = Path(sys.prefix)

    def variables(self) -> dict[str, str]:
        return inherited() | {"PYTHONPATH": str(ROOT / "src")}


@contextmanager
def database_server(folder: Path) -> Iterator[str]:
    """The URL of an embedded server."""
    yield embedded_url(folder, quiet=True)
    leave(folder)


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def requirements_of(project: Path) -> list[str]:
    """What `pip install -r requirements.txt` names."""
    lines = (project / "requirements.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def inherited() -> dict[str, str]:
    """Our environment without our own settings, and without paths to our sources."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TREADLE_", "PYTHON")) and name != "DATABASE_URL"
    }


def from_wheel(wheel: Path, requirements: list[str]) -> list[str]:
    """The requirements, with the wheel in place of treadle: treadle[web] becomes /…/treadle.whl[web]."""
    return [f"{wheel}{each.removeprefix('treadle')}" if is_treadle(each) else each for each in requirements]


def is_treadle(requirement: str) -> bool:
    return requirement.partition("[")[0] == "treadle"
