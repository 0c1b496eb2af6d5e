"""How long a handler may run: the option `timeout`."""

from typing import TypeAlias

from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument

Timeout: TypeAlias = Duration | tuple[Duration | None, Duration]

# Seconds between the interruption of a handler and its killing, if only the soft limit is given.
DEADLINE_GRACE = 10.0


def timeout_seconds(timeout: Timeout | None) -> tuple[float | None, float | None]:
    """Seconds until a handler is interrupted, and until it is killed."""
    if timeout is None:
        return None, None
    if not isinstance(timeout, tuple | list):
        soft = _seconds(timeout)
        return soft, soft + DEADLINE_GRACE
    if len(timeout) != 2:
        raise InvalidArgument(f'timeout must be a duration, or two such as ("25s", "30s"), got {timeout!r}')
    first, last = (None if each is None else _seconds(each) for each in timeout)
    if last is None or (first is not None and last < first):
        raise InvalidArgument(
            f"the second of timeout, when the handler is killed, must not be shorter than the first, got {timeout!r}"
        )
    return first, last


def _seconds(given: Duration) -> float:
    seconds = duration(given, "timeout").total_seconds()
    if not seconds:
        raise InvalidArgument(f"timeout must be longer than 0 s, got {given!r}")
    return seconds
