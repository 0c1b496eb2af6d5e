"""Durations as people write them: timedelta(minutes=10), 600 (seconds) or "10m"."""

import math
import re
from datetime import timedelta
from typing import TypeAlias

from treadle.words.errors import InvalidArgument

Duration: TypeAlias = timedelta | int | float | str

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)\s*")


def duration(value: Duration, name: str = "duration") -> timedelta:
    """The value as a timedelta. Raises InvalidArgument if it is negative or invalid."""
    try:
        span = _parse(value)
    except OverflowError:
        raise InvalidArgument(f"{name} must be at most {timedelta.max.days:,} days, got {value!r}") from None
    if span is None and isinstance(value, str):
        raise InvalidArgument(f'{name} must be a duration such as "90s", "10m", "1.5h" or "7d", got {value!r}')
    if span is None:
        raise InvalidArgument(
            f'{name} must be a timedelta, seconds, or a string such as "90s", "10m" or "1.5h", got {value!r}'
        )
    if span < timedelta(0):
        raise InvalidArgument(f"{name} must not be negative, got {value!r}")
    return span


def _parse(value: Duration) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        match = _PATTERN.fullmatch(value)
        return timedelta(**{_UNITS[match[2]]: float(match[1])}) if match else None
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return timedelta(seconds=value)
    return None
