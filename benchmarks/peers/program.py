"""Starts a program of a peer, and ends it with all that it started."""

import contextlib
import os
import signal
import subprocess
from typing import Any

Program = subprocess.Popen[str]


def start(command: list[str], place: dict[str, str], **streams: Any) -> Program:
    """A process group of its own, to be killed as a whole. What it says on standard output is for us."""
    return subprocess.Popen(
        command,
        env=os.environ | place,
        **({"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE} | streams),
        text=True,
        start_new_session=True,
    )


def end(program: Program) -> None:
    """One that has ended is left alone: its number may be another's."""
    if program.poll() is None:
        end_group(program)


def end_group(program: Program) -> None:
    """Also what it left behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
