"""Starts an adapter program, and kills it together with all processes that it started."""

import contextlib
import os
import signal
import subprocess
from typing import Any

import psutil

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
    """Kill the program and all processes that it started, including those that outlived it."""
    signal_group(program, signal.SIGKILL)


def signal_group(program: Program, number: signal.Signals) -> None:
    """To the program and all processes that it started, also those that have a process group of their own, like the
    worker processes of Treadle."""
    started: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        started = psutil.Process(program.pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, number)
    for each in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.send_signal(number)
