"""Limits as they are shown: what is in force, how much of it is in use, and how many jobs wait."""

from datetime import datetime
from typing import NamedTuple

from treadle.words.formatting import count, span

_PERIODS = {1: "second", 60: "minute", 3600: "hour", 86_400: "day"}


class LimitStatus(NamedTuple):
    """A limit, or one key of it. One that is per key has a row without a key, with the values for all keys."""

    name: str
    per: str | None
    """Each value of this argument has the limit for itself. None: all jobs have it together."""
    key: str | None
    """The value. Empty: the jobs without one. None: all."""
    job_types: list[str]
    queues: list[str]
    amount: int | None
    """How many at once, or per period; None: not limited; 0: paused."""
    seconds: float | None
    """The period; None: the limit is for jobs that run at once."""
    burst: int | None
    in_code: bool
    """Declared in code; otherwise added at run time."""
    declared_amount: int | None
    declared_seconds: float | None
    declared_burst: int | None
    changed_by: str | None
    """Who changed it at run time; None: nobody."""
    changed_at: datetime | None
    in_use: int | None
    """The weight of the jobs that use it; None: it is per period, or the row for all keys."""
    available: int | None
    """How many may start now; None: it is not per period, or the row for all keys."""
    opens_at: datetime | None
    """When the next may start, if that is known."""
    frees_at: datetime | None
    """When a job that uses it should finish, estimated from the jobs of its type that finished lately."""
    lanes: int
    """How many lanes wait for it."""
    waiting: int
    """How many due jobs are in these lanes, as far as they were counted."""
    exact: bool
    """False: there may be more jobs and lanes than were counted."""
    at: datetime
    """Now, by the database's clock."""

    @property
    def description(self) -> str:
        """In words: 3 at once."""
        return limit_in_words(self.amount, self.seconds, self.burst)

    @property
    def scope(self) -> str:
        """What it is for, to follow its name: ` for tenant acme`."""
        return scope_in_words(self.per, self.key)


def limit_in_words(amount: int | None, seconds: float | None, burst: int | None) -> str:
    """3 at once, or 10 per second, burst 20."""
    if amount is None:
        return "no limit"
    if seconds is None:
        return f"{count(amount)} at once"
    period = _PERIODS.get(int(seconds), "") if seconds == int(seconds) else ""
    words = f"{count(amount)} per {period or span(seconds)}"
    return words if burst is None else f"{words}, burst {count(burst)}"


def scope_in_words(per: str | None, key: str | None) -> str:
    """` for tenant acme`; nothing if the limit is for all jobs."""
    if not per or key is None:
        return ""
    return f" for {per} {key}" if key else f" for jobs without {per}"
