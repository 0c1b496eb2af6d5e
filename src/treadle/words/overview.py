"""The whole queue at a glance."""

from datetime import datetime
from typing import NamedTuple

from treadle.words.changes import Pause
from treadle.words.status import Status


class Lane(NamedTuple):
    """The jobs of one queue, type and priority that wait."""

    queue: str
    job_type: str
    priority: int
    depth: int
    """How many could be claimed, now or later."""
    exact: bool
    """False: too many to count, and `depth` is an estimate."""
    due_since: datetime | None
    """Since when the first of them could run; None: none is due yet."""
    due_next: datetime | None
    """When the first will be due, if none is."""
    paused: bool
    served: bool
    """A live worker claims from it."""


class WorkerRow(NamedTuple):
    worker_id: str
    host: str | None
    pid: int | None
    version: str | None
    job_types: list[str] | None
    """None: it sends heartbeats by hand, and has not said."""
    queues: list[str] | None
    """None: all."""
    concurrency: int | None
    started_at: datetime
    seen_at: datetime
    alive: bool
    lost_at: datetime | None
    """When it was given up, and its jobs were given to others."""
    holds: int
    """Jobs that it has claimed or runs."""


class Span(NamedTuple):
    """What ended from `at` on, for as long as the chart's step."""

    at: datetime
    completed: int
    failed: int
    cancelled: int
    errors: int
    """Attempts that failed, those that were tried again included."""
    waited: float | None
    """Seconds, on the average, from due to claimed; None: none has completed."""
    waited_most: float | None
    ran: float | None
    ran_most: float | None


class Total(NamedTuple):
    jobs: int
    exact: bool


class Overview(NamedTuple):
    at: datetime
    """By the database's clock."""
    lanes: list[Lane]
    """The deepest first."""
    workers: list[WorkerRow]
    pauses: list[Pause]
    spans: list[Span]
    """Oldest first, none left out; the last one is not over."""
    step: float
    """Seconds of a span."""
    totals: dict[Status, Total]
    rate: float
    """Ends a second, over the last full minute that was counted."""
