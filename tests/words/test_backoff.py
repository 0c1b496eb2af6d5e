"""How long a failed job waits before it is tried again."""

from typing import Any

import pytest

from treadle import (
    Backoff,
    InvalidArgument,
)


def test_backoff_grows_by_its_factor_up_to_its_limit() -> None:
    backoff = Backoff(first="2s", factor=3, limit="1m", jitter=0)
    assert [backoff.seconds(attempt) for attempt in (1, 2, 3, 4, 5, 6)] == [2, 6, 18, 54, 60, 60]
    assert [Backoff(factor=1, jitter=0).seconds(attempt) for attempt in (1, 2, 1000)] == [1, 1, 1]
    assert Backoff(first="1h", limit="1m", jitter=0).seconds(1) == 60
    for attempt in (64, 1_025, 10_000, 2**31 - 1):
        assert Backoff(jitter=0).seconds(attempt) == 3600
    assert Backoff(first=1, factor=2, limit="1h", jitter=0).seconds(10_000) == 3600
    assert Backoff(limit=0).seconds(3) == 0


def test_only_the_jitter_of_a_backoff_is_random() -> None:
    for jitter in (0.0, 0.25, 1.0):
        drawn = [Backoff(first=8, factor=1, jitter=jitter).seconds(1) for _ in range(300)]
        assert 8 * (1 - jitter) <= min(drawn) <= max(drawn) <= 8
        assert max(drawn) - min(drawn) >= 8 * jitter * 0.9
    beyond = [Backoff(first=8, limit=4, jitter=0.5).seconds(2**31 - 1) for _ in range(100)]
    assert 2 <= min(beyond) <= max(beyond) <= 4


@pytest.mark.parametrize(("factor", "attempt"), [(2.0, 2_000), (2, 2_000)])
def test_a_backoff_of_zero_stays_zero(factor: float, attempt: int) -> None:
    assert Backoff(first=0, factor=factor).seconds(attempt) == 0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"factor": 0.5}, r"factor must be at least 1, got 0\.5"),
        ({"factor": float("nan")}, "factor must be at least 1, got nan"),
        ({"jitter": 1.5}, r"jitter must be from 0 to 1, got 1\.5"),
        ({"jitter": -0.1}, r"jitter must be from 0 to 1, got -0\.1"),
        ({"first": "soon"}, "first must be a duration such as .*, got 'soon'"),
        ({"first": -1}, "first must not be negative, got -1"),
        ({"limit": None}, "limit must be a timedelta, seconds, or a string .*, got None"),
    ],
)
def test_an_invalid_backoff_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        Backoff(**options)
