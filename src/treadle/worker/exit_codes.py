"""How worker processes end: what their exit codes mean, and a description of any other.

The supervisor needs these; it must import neither the worker nor the application.
"""

import signal
from enum import Enum


class End(Enum):
    """Why a worker ended, as the exit code of its process. Not 0: that is what a handler ends with by mistake."""

    TOLD = 73
    DRAINED = 74
    STUCK = 75  # a job ran past its deadline: its thread can only be got rid of with the process
    BROKEN = 76  # an exception that nobody caught, such as SystemExit in a task that a handler left behind


# A mistake of the user's: starting again would not help.
MISTAKE = 64


def died(code: int | None) -> str:
    """How a process ended, in words."""
    if code is not None and code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"ended with exit code {code}"
