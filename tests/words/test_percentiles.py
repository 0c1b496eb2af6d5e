"""Percentiles of histograms against the exact ones of the same values."""

import random
from bisect import bisect_right
from itertools import pairwise
from typing import Any

import pytest
from psycopg import Connection

from treadle.words.percentiles import BOUNDS, BUCKETS, NO_TIMES, Histogram, Times, percentile


def histogram(values: list[float]) -> Histogram:
    counts = [0] * BUCKETS
    for value in values:
        counts[bisect_right(BOUNDS, value)] += 1
    return Histogram(counts, sum(values), max(values))


def bucket(value: float) -> tuple[float, float]:
    """The bounds of the bucket that a value lies in."""
    edges = [0.0, *BOUNDS, float("inf")]
    return next((low, high) for low, high in pairwise(edges) if low <= value < high)


@pytest.mark.parametrize("seed", range(20))
def test_a_percentile_is_wrong_by_less_than_the_width_of_its_bucket(seed: int) -> None:
    chance = random.Random(seed)
    values = sorted(chance.lognormvariate(chance.uniform(-5, 7), 2) for _ in range(chance.randrange(1, 2_000)))
    made = histogram(values)
    for share in (0.5, 0.95, 0.99):
        exact = values[max(0, -int(-share * len(values) // 1) - 1)]
        low, high = bucket(exact)
        found = percentile(made.counts, share, made.most)
        assert found is not None
        assert low <= found <= min(high, made.most)


def test_percentiles_never_exceed_the_longest_time_and_do_not_decrease() -> None:
    made = histogram([0.3] * 10 + [20_000.0, 50_000.0])
    found = made.times(12)
    p50, p95, p99, most, _ = found
    assert 0.2 <= (p50 or 0) <= 0.5
    assert (p50 or 0) <= (p95 or 0) <= (p99 or 0) <= (most or 0) == 50_000.0
    assert histogram([0.3]).times(1).p99 == pytest.approx(0.298, abs=0.01)


def test_nothing_has_no_percentiles() -> None:
    assert NO_TIMES.times(0) == Times()
    # Counted by a version without histograms: the average is known, the percentiles are not.
    old = Histogram(NO_TIMES.counts, 30.0, 9.0).times(10)
    assert (old.p50, old.mean, old.most) == (None, 3.0, 9.0)


def test_histograms_add_up() -> None:
    one, two = [0.001, 0.4, 3.0], [0.4, 70.0]
    assert histogram(one) + histogram(two) == histogram(one + two)


def test_the_bounds_are_those_of_the_database(connection: Connection[Any]) -> None:
    assert connection.execute("select time_buckets()").fetchone() == (list(BOUNDS),)
