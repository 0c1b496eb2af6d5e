"""How worker processes end: what their exit codes mean, and a description of any other.

The supervisor needs these; it must import neither the worker nor the application.
"""

import signal
from enum import Enum


class End(Enum):
    """Why a worker ended, as the exit code of its process. Not 0: a handler that calls sys.exit() ends with that."""

    STOPPED = 73  # by a signal
    DRAINED = 74
    STUCK = 75  # a job ran past its deadline, or a part of the worker hangs: only the end of the process stops it
    BROKEN = 76  # an uncaught exception, such as SystemExit in a task that a handler left behind
    RECYCLED = 77  # it has run enough jobs, or uses too much memory: another process takes its place


# A wrong argument or an application that cannot be imported: restarting would not help.
USAGE_ERROR = 64


def died(code: int | None) -> str:
    """How a process ended, in words."""
    if code is not None and code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"exited with code {code}"
