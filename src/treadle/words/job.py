"""Jobs as rows of the database, as workers claim them, and their failed attempts."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from treadle.words.json import Json
from treadle.words.status import Status


class JobRow(NamedTuple):
    """One row of treadle.jobs. A claimed one is also the right to work on the job: its lease number, `lease`, fences
    the worker's writes."""

    id: UUID
    job_type: str
    priority: int
    status: Status
    data: Json
    progress: int
    current_stage: str | None
    events_count: int
    worker_id: str | None
    claimed_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    attempts: int
    max_attempts: int
    last_error: str | None
    queue: str
    run_at: datetime
    lease: int
    holds: int
    crashes: int
    key: str | None
    finished_at: datetime | None
    result: Json
    unique_key: str | None
    pace: Json
    checkpoint: Json
    expires_at: datetime | None
    headers: dict[str, str] | None
    """Named strings that are stored with the job; None if there are none."""


class JobError(NamedTuple):
    """One failed attempt of a job."""

    attempt: int
    failed_at: datetime
    worker_id: str | None
    error: str
    traceback: str | None
    started_at: datetime | None


class JobPage(NamedTuple):
    """A page of a list, newest first, and where the next page begins (None: this is the last one)."""

    jobs: list[JobRow]
    next: UUID | None


class Claim(NamedTuple):
    id: UUID
    lease: int
    job_type: str
    data: str
    attempts: int
    max_attempts: int
    crashes: int
    queue: str
    priority: int
    key: str | None
    checkpoint: str | None
    created: float  # seconds since 1970: a time with its zone takes ten times as long to read
    origin: str | None = None
    """Where the job comes from, if a schedule enqueued it: JSON, see words/job.py."""
    headers: str | None = None
    """JSON."""
    timeout: Sequence[float | None] | None = None
    """Seconds until its handler is interrupted, and until it is killed, if not those of its function."""


class Origin(NamedTuple):
    schedule: str
    scheduled_for: datetime
    before: datetime | None
    """The time for which the schedule enqueued the job before this one."""

    @classmethod
    def read(cls, text: str) -> "Origin":
        """From the column `origin`, which enqueue_schedule() writes."""
        found = json.loads(text)
        before = found["before"]
        return cls(found["schedule"], _moment(found["for"]), None if before is None else _moment(before))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
