"""How long finished jobs are kept."""

from collections.abc import Mapping

from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument
from treadle.words.status import FINISHED, Status

KEEP: Mapping[str, Duration | None] = {"completed": "7d", "cancelled": "7d", "failed": "30d"}


def checked_keep(given: Mapping[str, Duration | None]) -> dict[Status, Duration | None]:
    """For each status, with the defaults. None: for ever."""
    unknown = set(given) - {status.value for status in FINISHED}
    if unknown:
        raise InvalidArgument(f"the keys of keep are completed, failed and cancelled, got {', '.join(sorted(unknown))}")
    for status, span in given.items():
        if span is not None:
            duration(span, f"keep[{status!r}]")
    return {Status(status): span for status, span in {**KEEP, **given}.items()}
