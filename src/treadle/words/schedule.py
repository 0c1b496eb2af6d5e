"""Schedules: what is enqueued again and again, and which of its times are due."""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from treadle.words.priority import Priority
from treadle.words.times import MISSED_LIMIT, Missed, Overlap
from treadle.words.timetable import Timetable

# A time is missed if its job could not be enqueued within this time.
MISSED_AFTER = timedelta(minutes=1)
# How many missed times are noted at most.
NOTED = 100


class Declaration(NamedTuple):
    """A schedule as code declares it, or an operator adds it. The fields are columns of `schedules`."""

    name: str
    job_type: str
    data: str
    expression: str
    timezone: str = "UTC"
    clocks_forward: str = "run_late"
    clocks_back: str = "run_once"
    priority: int = Priority.DISCOVERED
    queue: str = "default"
    max_attempts: int = 3
    key: str | None = None
    options: Mapping[str, Any] | None = None
    """Further options of its jobs, as enqueue_with_options() reads them."""
    missed: Missed = "latest"
    missed_limit: int = MISSED_LIMIT
    overlap: Overlap = "allow"
    jitter: timedelta = timedelta()
    starts_at: datetime | None = None
    ends_at: datetime | None = None

    @property
    def digest(self) -> str:
        """Two versions of the code that declare the same have the same digest."""
        return hashlib.sha256(repr(tuple(map(str, self))).encode()).hexdigest()


class ScheduleRow(NamedTuple):
    """A schedule as it is stored."""

    name: str
    job_type: str
    expression: str
    timezone: str
    clocks_forward: str
    clocks_back: str
    missed: str
    overlap: str
    priority: int
    queue: str
    next_at: datetime | None
    """The next time; None if there is none, or no worker has computed it yet."""
    last_at: datetime | None
    last_job: UUID | None
    paused_at: datetime | None
    retired_at: datetime | None
    """No worker declares it any longer."""
    in_code: bool
    """Declared in code; otherwise added at run time."""
    error: str | None

    def next_times(self, count: int, after: datetime) -> list[datetime]:
        """The next times, whether or not it is paused."""
        table = timetable(self.expression, self.timezone, self.clocks_forward, self.clocks_back)
        return table.next_times(count, after)


class DueSchedule(NamedTuple):
    """A schedule for which a worker has to compute times."""

    name: str
    expression: str
    timezone: str
    clocks_forward: str
    clocks_back: str
    missed: str
    missed_limit: int
    starts_at: datetime | None
    ends_at: datetime | None
    next_at: datetime | None
    digest: str | None
    """Of the declaration in code that is in force; None: added at run time."""
    seconds: float | None
    """How long until next_at; None if it has no time yet."""
    clock: datetime
    """The server's clock."""


class Plan(NamedTuple):
    """What is to be enqueued for a schedule that is due."""

    times: list[datetime]
    missed: list[datetime]
    next_at: datetime | None


def timetable(expression: str, timezone: str, clocks_forward: str, clocks_back: str) -> Timetable:
    return Timetable(expression, timezone, clocks_forward, clocks_back)  # type: ignore[arg-type]  # it checks them


def plan(due: DueSchedule) -> Plan:
    """Which times of a schedule are enqueued now, and which is the next."""
    table = timetable(due.expression, due.timezone, due.clocks_forward, due.clocks_back)
    until = due.clock if due.ends_at is None else min(due.clock, due.ends_at)
    found = [] if due.next_at is None else _latest(table, due.next_at, until, max(due.missed_limit, NOTED))
    wanted = {"latest": 1, "all": due.missed_limit, "skip": 1}[due.missed]
    times, missed = found[-wanted:], found[:-wanted][-NOTED:]
    if due.missed == "skip" and times and due.clock - times[-1] > MISSED_AFTER:
        times, missed = [], found[-NOTED:]
    begin = due.clock if due.starts_at is None else max(due.clock, due.starts_at - timedelta(microseconds=1))
    following = table.after(begin)
    if following is not None and due.ends_at is not None and following > due.ends_at:
        following = None
    return Plan(times, missed, following)


def _latest(table: Timetable, begin: datetime, until: datetime, count: int) -> list[datetime]:
    """The last `count` times from `begin`, which is one of them, to `until`. After a long downtime there may be
    millions, so the search begins at the end."""
    if until < begin:
        return []
    span = timedelta(minutes=2)
    while True:
        start = max(begin, until - span)
        found = [begin] if start == begin else []
        found.extend(table.between(start, until))
        if len(found) >= count or start == begin:
            return found[-count:]
        span *= 8
