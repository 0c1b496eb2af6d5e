"""A monotonic clock shared by all processes of a machine."""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Seconds. It runs while the machine is suspended, and is never set back."""
    return time.clock_gettime(_CLOCK)
