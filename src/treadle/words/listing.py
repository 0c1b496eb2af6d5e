"""Jobs in a list."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from treadle.words.status import Status

HELD = "held"
"""Beside the statuses, in lists: pending, but it must wait, such as for an earlier job with its key."""


class Wanted(NamedTuple):
    """Which jobs are listed; None does not matter."""

    status: str | None = None
    """A status, or `held`. Pending are then those that can be claimed, now or later."""
    job_type: str | None = None
    queue: str | None = None
    worker_id: str | None = None
    key: str | None = None
    search: str | None = None
    """A text in the payload (as JSON) or the error, in upper or lower case; or a job's id."""


class Listed(NamedTuple):
    """As much of a job as a list shows."""

    id: UUID
    job_type: str
    queue: str
    priority: int
    status: Status
    progress: int
    stage: str | None
    attempts: int
    max_attempts: int
    worker_id: str | None
    key: str | None
    held: bool
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    """The beginning of it."""


class Listing(NamedTuple):
    """One page of a list."""

    jobs: list[Listed]
    next: str | None
    """The cursor of the next page; None: this was the last one."""
    looked: int | None = None
    """So many jobs were looked at, and not all that there are. None: the page is full, or all were."""
