"""The pytest plugin and the unittest mixin, in a project of their own."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from treadle.testing.plugin import application

PROJECT = Path(__file__).parent / "project"
# Loaded by its entry point, if this version of the package is installed.
PLUGIN = (
    [] if any(each.name == "treadle" for each in entry_points(group="pytest11")) else ["-p", "treadle.testing.plugin"]
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PROJECT, tmp_path / "project"))


def run(project: Path, server_url: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"TREADLE_TEST_URL": server_url}
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=project, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.long
def test_a_project_uses_the_fixtures_in_several_processes(project: Path, server_url: str) -> None:
    done = run(project, server_url, "pytest", *PLUGIN, "-q", "-n", "2", "-p", "no:schemathesis")
    assert "1 failed, 12 passed" in done.stdout, done.stdout + done.stderr
    assert "E           AssertionError: no job was enqueued that is welcome(user_id=8)" in done.stdout.replace(
        "E       A", "E           A"
    )
    assert "user_id: expected 8, got 7" in done.stdout
    assert "in assert_enqueued" not in done.stdout  # the frames of the assertion are hidden
    assert len({path.read_text() for path in project.glob("database-*")}) == len(list(project.glob("database-*")))


def test_a_project_uses_unittest(project: Path, server_url: str) -> None:
    done = run(project, server_url, "unittest", "unittests")
    assert done.returncode == 0, done.stderr
    assert "Ran 3 tests" in done.stderr


def test_without_an_application_the_fixture_says_what_to_do() -> None:
    with pytest.raises(
        pytest.fail.Exception, match=r'set treadle_app = "shop.jobs:app" under \[tool.pytest.ini_options'
    ):
        application("")


def test_the_plugin_imports_nothing_of_treadle_that_takes_time() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import treadle.testing.plugin; "
        "print(sorted(set(sys.modules) - before))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "['treadle', 'treadle.testing', 'treadle.testing.plugin']"
