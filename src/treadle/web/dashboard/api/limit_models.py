"""The responses of the API about limits."""

from datetime import datetime

from treadle.web.dashboard.api.model import ResponseModel
from treadle.words.limit_status import LimitKind


class Limit(ResponseModel):
    """A limit, or one key of it. A limit per key has a row without a key, with the values for all keys."""

    name: str
    per: str | None
    """Each value of this argument has the limit for itself. Null: all jobs have it together."""
    key: str | None
    """The value. Empty: the jobs without one. Null: all."""
    job_types: list[str]
    queues: list[str]
    kind: LimitKind
    """`concurrency`: how many run at once; `rate`: how many start per period; `pending`: how many may wait. Not limits:
    `fairness` (the values of `per` take turns, or without `per`, the job types) and `aging`."""
    when_full: str | None
    """Of the kind `pending`: `refuse` new jobs, or `drop` the oldest."""
    amount: int | None
    """How many; null: not limited; 0: none. Of `fairness`: the weight of the key, null: 1. Of `aging`: how many of a
    hundred claims."""
    seconds: float | None
    """The period; null: the limit is for jobs that run at once."""
    burst: int | None
    description: str
    """The values in words: `3 at once`."""
    in_code: bool
    """Declared in code; otherwise added at run time."""
    declared_amount: int | None
    declared_seconds: float | None
    declared_burst: int | None
    changed_by: str | None
    """Who changed it at run time; null: nobody."""
    changed_at: datetime | None
    in_use: int | None
    """The weight of the jobs that use it, or how many wait, counted up to 10,000; null: that is not counted, or the
    row for all keys."""
    available: int | None
    """How many may start now; null: it is not per period, or the row for all keys."""
    paused: bool
    reached: bool
    """No further job may start, or be enqueued, at the moment."""
    opens_at: datetime | None
    """When the next may start, if that is known."""
    frees_at: datetime | None
    """When a job that uses it should finish: an estimate."""
    lanes: int
    """How many lanes wait for it."""
    waiting: int
    """How many due jobs are in these lanes, as far as they were counted."""
    exact: bool
    """False: there may be more jobs and lanes than were counted."""
    at: datetime


class LimitList(ResponseModel):
    limits: list[Limit]
    """Those that jobs wait for first."""
    more: bool
    """There may be more than these."""


class LimitChange(ResponseModel):
    done: bool
    """False: nothing was changed at run time that could be undone."""
