"""Lists of jobs: the filter, a row, a page."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from treadle.words.payload_condition import PayloadCondition
from treadle.words.status import Status

LATER = "later"
"""Accepted as a status in filters: pending, but not due yet."""
BLOCKED = "blocked"
"""Accepted as a status in filters: pending, but blocked, such as by an earlier job with its key."""


class JobFilter(NamedTuple):
    """A filter for jobs; None matches all."""

    status: str | None = None
    """A status, `later` or `blocked`. `pending` are the jobs that can be claimed, now or later."""
    job_type: str | None = None
    queue: str | None = None
    worker_id: str | None = None
    key: str | None = None
    search: str | None = None
    """A text in the payload (as JSON) or in the error, regardless of case; or the id of a job, or at least 8 of its
    first or last digits."""
    since: datetime | None = None
    """With a finished status: finished at this time or later; else: enqueued."""
    until: datetime | None = None
    """Before this time."""
    where: PayloadCondition | None = None

    @property
    def is_search(self) -> bool:
        """Whether each job must be examined, so that a page may take several queries."""
        return self.search is not None or self.where is not None


class JobSummary(NamedTuple):
    """One row of a list."""

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
    blocked: bool
    """Blocked by an earlier job with the same key, or by jobs that it waits for."""
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    """Its first characters."""


class Listing(NamedTuple):
    """One page of a list."""

    jobs: list[JobSummary]
    next: str | None
    """The cursor of the next page; None: this is the last one."""
    examined: int | None = None
    """How many jobs were examined, if not all and the page is not full; else None."""
    searched: int = 0
    """How many jobs were examined, unless this is the last page."""
    reached: datetime | None = None
    """The jobs that finished or were enqueued at this time or later were examined. None: this is the last page, or the
    list has another order."""
