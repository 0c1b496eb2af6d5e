"""How far a job is, as whoever watches sees it."""

from typing import NamedTuple

STAGE_LIMIT = 100


class Progress(NamedTuple):
    percent: int
    stage: str | None
    done: int | None = None
    """How many items were counted by job.track, and of how many."""
    total: int | None = None
    rate: float | None = None
    """Items a second."""
    left: float | None = None
    """Seconds until the items are done, if it goes on like this."""
