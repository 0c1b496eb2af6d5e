"""Starts an adapter program, and kills it together with all processes that it started."""

import contextlib
import os
import signal
import subprocess
from typing import Any

Program = subprocess.Popen[str]


def start(command: list[str], place: dict[str, str], **streams: Any) -> Program:
    """Start a program in a new process group, which can be killed as a whole. Its standard output is captured."""
    return subprocess.Popen(
        command,
        env=os.environ | place,
        **({"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE} | streams),
        text=True,
        start_new_session=True,
    )


def end(program: Program) -> None:
    """Kill a running program. One that has exited is left alone, because its process id may be in use again."""
    if program.poll() is None:
        end_group(program)


def end_group(program: Program) -> None:
    """Kill the whole process group, including processes that outlived the program."""
    signal_group(program, signal.SIGKILL)


def signal_group(program: Program, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, number)
