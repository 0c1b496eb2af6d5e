"""The Makefile: what its targets install on a fresh machine."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def commands_of(target: str, environment: Path) -> str:
    """What make would run with an environment that does not exist yet."""
    command = ["make", "--dry-run", target, f"VENV={environment}"]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def test_the_demo_installs_no_development_tools(tmp_path: Path) -> None:
    assert "--group dev" not in commands_of("demo", tmp_path / "venv")
    assert "--group dev" in commands_of("style", tmp_path / "venv")


def test_the_tools_are_added_to_the_environment_of_the_demo(tmp_path: Path) -> None:
    (tmp_path / ".demo-ready").touch()
    commands = commands_of("style", tmp_path)
    assert "--group dev" in commands
    assert "--editable" not in commands
