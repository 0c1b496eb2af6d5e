"""Waiting for the thing itself."""

import time
from collections.abc import Callable
from typing import Any


def until(condition: Callable[[], Any], told: Callable[[], object] = lambda: "", seconds: float = 45) -> Any:
    """Wait for something to come true, and return it."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"it did not come true in {seconds} seconds: {told()}")
        time.sleep(0.02)
    return found
