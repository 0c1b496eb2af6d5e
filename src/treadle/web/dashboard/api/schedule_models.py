"""The responses of the API about schedules."""

from datetime import datetime
from uuid import UUID

from treadle.web.dashboard.api.model import ResponseModel
from treadle.words.schedule_status import State


class Occurrence(ResponseModel):
    """A time of a schedule that was dealt with."""

    scheduled_for: datetime
    job_id: UUID | None
    """Null: no job was enqueued."""
    outcome: str
    """The status of its job; `deleted`: the job no longer exists; `skipped`: the job before had not finished;
    `missed`: no worker could enqueue it in time."""


class Schedule(ResponseModel):
    name: str
    job_type: str
    queue: str
    priority: int
    expression: str
    timezone: str
    description: str | None
    """The expression in plain words; null if it is not valid."""
    overlap: str
    in_code: bool
    """Declared in code; otherwise added at run time."""
    state: State
    """`ended`: it has no further times; `retired`: no worker declares it any longer; `error`: see `error`."""
    next_at: datetime | None
    last_at: datetime | None
    last_job: UUID | None
    last_outcome: str | None
    """The status of its last job, or `deleted`; null: there was no job yet."""
    paused_at: datetime | None
    retired_at: datetime | None
    error: str | None
    retry_at: datetime | None
    """When a worker tries again after the error."""
    history: list[Occurrence]
    """The latest 20, oldest first."""


class ScheduleList(ResponseModel):
    at: datetime
    schedules: list[Schedule]
    """In the order of their names."""
    next: str | None
    """Pass it as `after` to get the next page; null on the last page."""
    total: int
    """How many match, counted up to 1,000."""
    exact: bool
    """False: there are more than `total`."""


class ScheduleChange(ResponseModel):
    done: bool
    """False: it was already so, and nothing changed."""
