"""Runs `treadle` commands, in this process or, where the test needs it, in a separate one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from treadle.cli import main

TREADLE = str(Path(sys.executable).parent / "treadle")


def run_treadle(*arguments: object, text: str | None = None, **environment: str) -> Result:
    """Runs a command in this process, without a terminal. Exceptions are raised: a command must not end in one."""
    result = CliRunner().invoke(main, [str(each) for each in arguments], input=text, env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def output_of(*arguments: object, **more: str) -> str:
    """The output of a command that must succeed."""
    result = run_treadle(*arguments, **more)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def json_output_of(*arguments: object, **more: str) -> list[Any]:
    """The output of a command with --json, parsed line by line."""
    return [json.loads(line) for line in run_treadle(*arguments, "--json", **more).stdout.splitlines()]


def run_in_process(*arguments: object, before: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command_line(*arguments, before=before),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | environment,
    )


def command_line(*arguments: object, before: str = "") -> list[str]:
    """`before` is Python code that runs first in the process, for example to shorten what it does."""
    if before:
        return [sys.executable, "-c", f"{before}\nfrom treadle.cli import main\nmain()", *map(str, arguments)]
    return [TREADLE, *map(str, arguments)]
