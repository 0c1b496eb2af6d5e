"""Waits for a condition, instead of for a fixed time."""

import time
from collections.abc import Callable
from typing import Any


def until(condition: Callable[[], Any], detail: Callable[[], object] = lambda: "", seconds: float = 45) -> Any:
    """Wait until the condition is true and return its value. `detail` explains a failure."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"the condition was not true after {seconds} seconds: {detail()}")
        time.sleep(0.02)
    return found
