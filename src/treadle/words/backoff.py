"""The delay before a failed job is retried."""

import math
import random
from dataclasses import dataclass

from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument
from treadle.words.options import checked_value


@checked_value
@dataclass(frozen=True)
class Backoff:
    """Exponential: `first`, multiplied by `factor` after each further attempt, at most `limit`.

    `jitter` is the random part of the delay, from 0 to 1, so that jobs that failed together are not retried together.
    """

    first: Duration = "1s"
    factor: float = 2.0
    limit: Duration = "1h"
    jitter: float = 0.5

    def __post_init__(self) -> None:
        duration(self.first, "first")
        duration(self.limit, "limit")
        if not 1 <= self.factor < math.inf:
            raise InvalidArgument(f"factor must be at least 1, got {self.factor!r}")
        if not 0 <= self.jitter <= 1:
            raise InvalidArgument(f"jitter must be from 0 to 1, got {self.jitter!r}")

    def seconds(self, attempt: int) -> float:
        """After this attempt, counted from 1."""
        first, limit = duration(self.first).total_seconds(), duration(self.limit).total_seconds()
        try:
            whole = min(first * float(self.factor) ** (attempt - 1), limit)
        except OverflowError:
            whole = limit if first else 0.0
        return whole * (1 - self.jitter * random.random())  # noqa: S311 - jitter, not a secret
