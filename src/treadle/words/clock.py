"""A clock that all processes of the machine share."""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Seconds. It goes on while the machine is suspended, and is never set back."""
    return time.clock_gettime(_CLOCK)
