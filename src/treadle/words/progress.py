"""The progress of a job."""

from typing import NamedTuple

STAGE_LIMIT = 100


class Progress(NamedTuple):
    percent: int
    stage: str | None
    done: int | None = None
    """How many items were counted by job.track, and of how many."""
    total: int | None = None
    rate: float | None = None
    """Items per second."""
    left: float | None = None
    """Seconds until all items are done, at this rate."""
