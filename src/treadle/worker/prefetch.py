"""How many jobs a worker claims ahead of those that run: as many as finish in about 0.15 s.

That is none for long jobs, which another worker could start in the meantime, and hundreds for quick ones, so that
claims come in large batches.
"""

import time

AHEAD_SECONDS = 0.15
MOST_AHEAD = 4000
# How long jobs are counted before the speed is measured again.
MEASURE_SECONDS = 0.02


class Prefetch:
    def __init__(self, size: int | None) -> None:
        """A fixed size, or None to follow the speed of the worker."""
        self._size = size
        self.is_fixed = size is not None
        self.finished = 0
        """How many jobs finished since the last measurement; the claimer counts them here."""
        self._speed = 0.0  # jobs per second
        self._measured = time.monotonic()

    def size(self) -> int:
        if self._size is not None:
            return self._size
        now = time.monotonic()
        span = now - self._measured
        if span >= MEASURE_SECONDS:
            # The last 50 ms count most, so that it follows a change at once.
            speed = self.finished / span
            self._speed = max(speed, self._speed + (speed - self._speed) * min(1.0, span * 20))
            self.finished = 0
            self._measured = now
        return min(int(self._speed * AHEAD_SECONDS), MOST_AHEAD)
