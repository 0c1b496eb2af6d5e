"""Jobs, and their failed attempts, as rows of the database."""

from datetime import datetime
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
