"""Commands as they are typed: in this process, where a process of its own is not the point, and in one where it is."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from treadle.cli import main

TREADLE = str(Path(sys.executable).parent / "treadle")


def typed(*arguments: object, text: str | None = None, **environment: str) -> Result:
    """In this process, in a pipe. What is raised is not caught: a command has no business with a traceback."""
    result = CliRunner().invoke(main, [str(each) for each in arguments], input=text, env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def told(*arguments: object, **more: str) -> str:
    """What a command that works says."""
    result = typed(*arguments, **more)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def objects(*arguments: object, **more: str) -> list[Any]:
    """What it says with --json."""
    return [json.loads(line) for line in typed(*arguments, "--json", **more).stdout.splitlines()]


def in_a_process(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [TREADLE, *(str(each) for each in arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=os.environ | environment
    )
