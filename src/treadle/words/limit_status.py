"""Limits as they are shown: what is in force, how much of it is in use, and how many jobs wait."""

from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from treadle.words.formatting import count, span

LimitKind: TypeAlias = Literal["concurrency", "rate", "pending", "fairness", "aging"]
# Jobs that wait are counted up to this, for a limit of the kind "pending".
PENDING_COUNTED = 10_000

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
    kind: LimitKind
    """`concurrency`: how many run at once; `rate`: how many start per period; `pending`: how many may wait. Not limits:
    `fairness` (the values of `per` take turns, or without `per`, the job types) and `aging`."""
    when_full: str | None
    """Of the kind `pending`: `refuse` new jobs, or `drop` the oldest."""
    amount: int | None
    """How many; None: not limited; 0: none. Of fairness: the weight of the key, None: 1. Of aging: how many of
    a hundred claims."""
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
    """The weight of the jobs that use it, or how many wait, counted up to 10,000; None: that is not counted, or the
    row for all keys."""
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
        if self.kind == "fairness":
            return f"weight {count(1 if self.amount is None else self.amount)}"
        if self.kind == "aging":
            return f"{count(self.amount or 0)} of 100 claims after {span(self.seconds or 0)}"
        if self.kind == "pending" and self.amount is not None:
            return f"{count(self.amount)} waiting, then {self.when_full}"
        return limit_in_words(self.amount, self.seconds, self.burst)

    @property
    def declared_description(self) -> str:
        """What the code declares, in words."""
        declared = self.declared_amount, self.declared_seconds, self.declared_burst
        return self._replace(amount=declared[0], seconds=declared[1], burst=declared[2]).description

    @property
    def starts(self) -> bool:
        """It limits which jobs start."""
        return self.kind in ("concurrency", "rate")

    @property
    def paused(self) -> bool:
        return self.amount == 0 and self.starts

    @property
    def capacity(self) -> int | None:
        """How many may run, start at once or wait, if nothing uses it; None: there is no limit."""
        if self.kind in ("fairness", "aging"):
            return None
        return self.burst if self.kind == "rate" and self.burst is not None else self.amount

    @property
    def used(self) -> int | None:
        """How much of the capacity is used; None: that is not known, or there is no limit."""
        if self.capacity is None:
            return None
        return self.in_use if self.available is None else max(0, self.capacity - self.available)

    @property
    def reached(self) -> bool:
        """No further job may start, or be enqueued, at the moment; but later one may."""
        if self.used is None or self.capacity is None or self.paused:
            return False
        return self.used >= self.capacity or (self.opens_at is not None and self.opens_at > self.at)

    @property
    def key_in_words(self) -> str:
        """acme, no tenant, or each tenant; empty if the limit is for all jobs together."""
        if self.per is None:
            return "each job type" if self.kind == "fairness" else ""
        if self.key is None:
            return f"each {self.per}"
        return self.key or f"no {self.per}"

    @property
    def next_in_words(self) -> str:
        """When the next job may start: now, in 5s, when one ends. Empty: that is not known, or not limited."""
        if self.paused:
            return "paused"
        if not self.starts:
            return "full" if self.reached else ""
        if self.opens_at is not None:
            return f"in {span(max(0.0, (self.opens_at - self.at).total_seconds()))}"
        if self.in_use is None and self.available is None:
            return ""
        if not self.reached:
            return "now"
        if self.frees_at is None:
            return "when one ends"
        return f"in about {span(max(0.0, (self.frees_at - self.at).total_seconds()))}"

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
