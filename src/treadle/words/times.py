"""When a function is enqueued again and again: the option `schedule`, which is Cron(…) or Every(…)."""

from dataclasses import KW_ONLY, dataclass, fields
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument, shown
from treadle.words.naming import int_within
from treadle.words.options import checked_value
from treadle.words.timetable import Timetable

Missed: TypeAlias = Literal["skip", "latest", "all"]
Overlap: TypeAlias = Literal["allow", "skip", "wait"]
ClocksForward: TypeAlias = Literal["run_late", "skip"]
ClocksBack: TypeAlias = Literal["run_once", "run_twice"]

MISSED_LIMIT = 100
MOST_MISSED = 10_000


@dataclass(frozen=True, kw_only=True)
class _Times:
    """What is None has its default, and is kept as it is when the times of a schedule are changed."""

    missed: Missed | None = None
    """After no worker could enqueue for a minute or more: skip (nothing), latest (default), or all."""
    missed_limit: int | None = None
    """How many, with missed="all". 100 if not given."""
    overlap: Overlap | None = None
    """While the job of the time before has not finished: allow (default), skip, or wait."""
    jitter: Duration | None = None
    """The job is due up to this much later, at random."""
    start: datetime | None = None
    """No times before this."""
    end: datetime | None = None
    """No times after this."""

    def _check(self) -> None:
        _choice(self.missed, Missed, "missed")
        _choice(self.overlap, Overlap, "overlap")
        if self.missed_limit is not None:
            int_within(self.missed_limit, 1, MOST_MISSED, "missed_limit")
            if self.missed != "all":
                raise InvalidArgument('missed_limit needs missed="all"')
        if self.jitter is not None:
            duration(self.jitter, "jitter")
        for moment, which in ((self.start, "start"), (self.end, "end")):
            if moment is not None and (not isinstance(moment, datetime) or moment.tzinfo is None):
                raise InvalidArgument(f"{which} must be a datetime with a time zone, got {moment!r}")

    def columns(self) -> dict[str, Any]:
        """What is given, as columns of `schedules`."""
        found = {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}
        for option, column in (("start", "starts_at"), ("end", "ends_at")):
            if option in found:
                found[column] = found.pop(option)
        if "jitter" in found:
            found["jitter"] = duration(found["jitter"])
        return found


@checked_value
@dataclass(frozen=True)
class Cron(_Times):
    """At the times of a cron expression: `Cron("0 9 * * mon", timezone="Europe/Oslo")`. It has five fields, or six with
    the second in front, or is @hourly, @daily, @weekly, @monthly or @yearly."""

    expression: str
    _: KW_ONLY
    timezone: str | None = None
    """Of the expression, such as Europe/Oslo. UTC if not given."""
    clocks_forward: ClocksForward | None = None
    """At a local time that does not exist because clocks are set forward: run_late (default) or skip."""
    clocks_back: ClocksBack | None = None
    """At a local time that comes twice because clocks are set back: run_once (default) or run_twice."""

    def __post_init__(self) -> None:
        if isinstance(self.expression, str) and self.expression.split()[:1] == ["every"]:
            span = "".join(self.expression.split()[1:])
            raise InvalidArgument(f'Cron takes a cron expression; for an interval use Every("{span or "90s"}")')
        _choice(self.clocks_forward, ClocksForward, "clocks_forward")
        _choice(self.clocks_back, ClocksBack, "clocks_back")
        Timetable(self.expression, "UTC" if self.timezone is None else self.timezone)
        self._check()


@checked_value
@dataclass(frozen=True)
class Every(_Times):
    """At multiples of an interval: `Every("90s")`. They are counted from 1970-01-01 00:00 UTC, so that all workers
    compute the same times."""

    interval: Duration

    def __post_init__(self) -> None:
        Timetable(self.expression)
        self._check()

    @property
    def expression(self) -> str:
        """As `schedules` has it."""
        seconds = f"{duration(self.interval, 'Every').total_seconds():.3f}".rstrip("0").rstrip(".")
        return f"every {seconds}s"

    def columns(self) -> dict[str, Any]:
        found = super().columns()
        del found["interval"]
        return {"expression": self.expression, **found}


Times: TypeAlias = Cron | Every


def check_times(given: object) -> Times:
    """The option."""
    if isinstance(given, Cron | Every):
        return given
    text = f"Cron({given!r})" if isinstance(given, str) else 'Cron("0 9 * * mon")'
    raise InvalidArgument(f'schedule must be Cron(…) or Every(…), such as {text} or Every("90s"), got {given!r}')


def times_of(expression: str, **options: Any) -> Times:
    """What a command line writes as "0 9 * * mon" or "every 90s"."""
    word, _, span = expression.strip().partition(" ")
    if word != "every":
        return Cron(expression, **options)
    return Every(span.replace(" ", ""), **options)


def _choice(value: object, allowed: object, name: str) -> None:
    names = get_args(allowed)
    if value is not None and value not in names:
        raise InvalidArgument(f"{name} must be {', '.join(names[:-1])} or {names[-1]}, got {shown(value)}")
