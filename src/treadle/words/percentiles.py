"""Percentiles of waiting and run times, from the histograms that workers keep by the minute.

The counts are exact, and so is the bucket that a percentile lies in. Its place in the bucket is interpolated, so it is
wrong by less than the width of that bucket: at most a factor of 2.5, or of 4 above an hour.
"""

from collections.abc import Sequence
from typing import NamedTuple

# As time_buckets() returns them: the upper bounds in seconds. Longer times are counted after the last one.
BOUNDS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0),
    *(60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0),
)
BUCKETS = len(BOUNDS) + 1


class Times(NamedTuple):
    """How long completed jobs waited or ran, in seconds. None: no job has completed."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    most: float | None = None
    mean: float | None = None


class Histogram(NamedTuple):
    counts: Sequence[int]
    total: float
    """The sum of all times."""
    most: float

    def __add__(self, other: object) -> "Histogram":
        if not isinstance(other, Histogram):
            return NotImplemented
        counts = [one + two for one, two in zip(self.counts, other.counts, strict=True)]
        return Histogram(counts, self.total + other.total, max(self.most, other.most))

    def times(self, completed: int) -> Times:
        """`completed`: how many jobs."""
        if not completed:
            return Times()
        p50, p95, p99 = (percentile(self.counts, share, self.most) for share in (0.5, 0.95, 0.99))
        return Times(p50, p95, p99, self.most, self.total / completed)


NO_TIMES = Histogram((0,) * BUCKETS, 0.0, 0.0)


def percentile(counts: Sequence[int], share: float, most: float) -> float | None:
    """The time that this share of the jobs did not exceed; None: nothing was counted. `most` is the longest time."""
    total = sum(counts)
    if not total:
        return None
    wanted, before = share * total, 0
    for nth, count in enumerate(counts):
        if count and before + count >= wanted:
            low = BOUNDS[nth - 1] if nth else 0.0
            high = min(BOUNDS[nth], most) if nth < len(BOUNDS) else most
            return low + max(0.0, high - low) * (wanted - before) / count
        before += count
    return most
