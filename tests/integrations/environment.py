"""The wheel, and virtual environments that have it and nothing of this project's own environment."""

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = folder.glob("treadle-*.whl")
    return wheel


class Environment:
    """A virtual environment with what `pip install …` was told, where treadle means the wheel."""

    def __init__(self, folder: Path, wheel: Path, requirements: list[str]) -> None:
        self.folder = folder
        venv.create(folder, with_pip=False)  # the pip of this environment installs into it
        pip = [sys.executable, "-m", "pip", "--python", str(self.program("python")), "install", "-qq"]
        subprocess.run([*pip, "--disable-pip-version-check", *from_wheel(wheel, requirements)], check=True)

    def program(self, name: str) -> Path:
        return self.folder / "bin" / name

    def run(self, command: list[str], cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a program of this environment. Of our own settings, it sees only those that are given."""
        return subprocess.run(
            [str(self.program(command[0])), *command[1:]],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=cwd,
            env=inherited() | environment,
        )


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
