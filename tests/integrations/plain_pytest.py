"""A project that tests its jobs with pytest and unittest, on the embedded server of its own folder."""

import shutil
from pathlib import Path

from tests.integrations.environment import ROOT, Environment, requirements_of

PROJECT = ROOT / "tests" / "testing" / "project"


def run_pytest(wheel: Path, folder: Path) -> None:
    environment = Environment(folder / "environment", wheel, requirements_of(PROJECT))
    project = Path(shutil.copytree(PROJECT, folder / "project"))
    # One of its tests fails, to show what a failure looks like. The plugin is loaded because it is installed.
    done = environment.run(["pytest", "-q", "-n", "2"], project)
    assert "1 failed, 12 passed" in done.stdout, done.stdout + done.stderr
    assert "user_id: expected 8, got 7" in done.stdout, done.stdout
    done = environment.run(["python", "-m", "unittest", "unittests"], project)
    assert (done.returncode, "Ran 3 tests" in done.stderr) == (0, True), done.stderr
