"""Schedules as they are shown: their state, their next and last times, and what became of the latest ones."""

from datetime import datetime
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias, get_args
from uuid import UUID

from treadle.words.errors import TreadleError
from treadle.words.timetable import Timetable

State: TypeAlias = Literal["active", "paused", "retired", "ended", "error"]
STATES: tuple[State, ...] = get_args(State)
# Occurrences of each schedule that are shown.
HISTORY = 20


class Occurrence(NamedTuple):
    """A time of a schedule that was dealt with."""

    scheduled_for: datetime
    job_id: UUID | None
    """None: no job was enqueued."""
    outcome: str
    """The status of its job; `deleted`: the job no longer exists; `skipped`: the job before had not finished, or there
    was one with the same unique values; `missed`: no worker could enqueue it in time."""


class ScheduleStatus(NamedTuple):
    name: str
    job_type: str
    queue: str
    priority: int
    expression: str
    timezone: str
    overlap: str
    in_code: bool
    """Declared in code; otherwise added at run time."""
    state: State
    """`ended`: it has no further times; `retired`: no worker declares it any longer; `error`: see `error`."""
    next_at: datetime | None
    """None: it has no further times, it is not active, or no worker has computed the next time yet."""
    last_at: datetime | None
    last_job: UUID | None
    last_outcome: str | None
    """The status of its last job, or deleted; None: there was no job yet."""
    paused_at: datetime | None
    retired_at: datetime | None
    error: str | None
    """Why the last try to compute or enqueue failed."""
    retry_at: datetime | None
    """When a worker tries again after the error."""
    history: list[Occurrence]
    """The latest, oldest first."""

    @property
    def description(self) -> str | None:
        """Its times in plain words; None if a worker would not understand the expression."""
        return _description(self.expression, self.timezone)


class ScheduleList(NamedTuple):
    """A page of the list, in the order of their names."""

    at: datetime
    """By the database's clock."""
    schedules: list[ScheduleStatus]
    next: str | None
    """The cursor of the next page; None on the last one."""
    total: int
    """How many match, counted up to 1,000."""
    exact: bool
    """False: there are more than `total`."""


@lru_cache(4096)
def _description(expression: str, timezone: str) -> str | None:
    try:
        return Timetable(expression, timezone).description()
    except TreadleError:  # added in SQL, which cannot check it
        return None
