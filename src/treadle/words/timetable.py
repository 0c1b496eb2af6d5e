"""When a schedule is due: a cron expression in a time zone, or an interval."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal

from treadle.words.cron import NAMED, cron_expression
from treadle.words.duration import duration
from treadle.words.errors import InvalidArgument, shown
from treadle.words.timezones import SECOND, clock_change, timezone_named

_UNITS = {"ms": "millisecond", "s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week"}

_LONGEST_EXPRESSION = 1000  # six fields that list every value are half as long
_SHORTEST_INTERVAL, _LONGEST_INTERVAL = timedelta(seconds=1), timedelta(days=3650)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Local and UTC time differ by less than a day, so that both can be expressed from here on.
_EARLIEST = datetime(1, 1, 3, tzinfo=UTC)
# The rarest date, 29 February on a given weekday, comes at least every 40 years. Cronsim stops after 50 years, too.
_HORIZON_YEARS = 50


@dataclass(frozen=True)
class Timetable:
    """A cron expression such as "0 9 * * mon" or "@daily", or an interval such as "every 90s".

    `clocks_forward` is for a local time that is missing when the clocks go forward: "run_late" runs at the moment of
    the change, "skip" does not run. `clocks_back` is for a local time that comes twice when the clocks go back:
    "run_once" runs the first time, "run_twice" both times. They apply to expressions with fixed hours. An hour field
    with `*` follows the clock: it runs whenever the clock shows a matching time, and never at another time.

    Intervals count from `anchor`, or else from 1970-01-01 00:00 UTC, in both directions, and ignore the time zone.
    """

    expression: str
    timezone: str = "UTC"
    clocks_forward: Literal["run_late", "skip"] = "run_late"
    clocks_back: Literal["run_once", "run_twice"] = "run_once"
    anchor: datetime | None = None

    def __post_init__(self) -> None:
        if self.clocks_forward not in ("run_late", "skip"):
            raise InvalidArgument(f'clocks_forward must be "run_late" or "skip", got {shown(self.clocks_forward)}')
        if self.clocks_back not in ("run_once", "run_twice"):
            raise InvalidArgument(f'clocks_back must be "run_once" or "run_twice", got {shown(self.clocks_back)}')
        object.__setattr__(self, "expression", _normalised(self.expression))
        _checked_timezone(self.timezone)
        if self._interval is None:
            cron_expression(self.expression)
            if self.anchor is not None:
                raise InvalidArgument(
                    f'anchor is only for intervals such as "every 90s", got it for "{self.expression}"'
                )
        elif self.anchor is not None:
            object.__setattr__(self, "anchor", _anchor(self.anchor))

    def after(self, moment: datetime) -> datetime | None:
        """The first occurrence after the moment, in UTC. None: there is none in the next 50 years, or before 10000."""
        moment = max(_aware(moment, "moment"), _EARLIEST)
        interval = self._interval
        try:
            if interval is None:
                return self._cron_after(moment)
            anchor = self.anchor or _EPOCH
            return anchor + ((moment - anchor) // interval + 1) * interval
        except OverflowError:
            return None

    def between(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The occurrences after the first moment, up to and including the second, in order."""
        return self._between(_aware(after, "after"), _aware(until, "until"))

    def next_times(self, count: int, after: datetime) -> list[datetime]:
        """The first occurrences after the moment; fewer if there are no more."""
        times: list[datetime] = []
        while len(times) < count and (found := self.after(times[-1] if times else after)) is not None:
            times.append(found)
        return times

    def description(self) -> str:
        """In plain words, such as "At 09:00 on Monday, Europe/Oslo time"."""
        if self._interval is None:
            clock = "UTC" if self.timezone == "UTC" else f"{self.timezone} time"
            return f"{cron_expression(self.expression).search.explain()}, {clock}"
        number, unit = re.findall(r"[\d.]+|[a-z]+", self.expression)[1:]
        amount = _UNITS[unit] if float(number) == 1 else f"{number} {_UNITS[unit]}s"
        return f"Every {amount}" + (f", counted from {self.anchor:%Y-%m-%d %H:%M:%S} UTC" if self.anchor else "")

    @property
    def _interval(self) -> timedelta | None:
        return _interval(self.expression) if self.expression.startswith("every") else None

    def _between(self, after: datetime, until: datetime) -> Iterator[datetime]:
        found = self.after(after)
        while found is not None and found <= until:
            yield found
            found = self.after(found)

    def _cron_after(self, moment: datetime) -> datetime | None:
        cron, clock = cron_expression(self.expression), timezone_named(self.timezone)
        late = self.clocks_forward == "run_late" and not cron.follows_clock
        twice = self.clocks_back == "run_twice" or cron.follows_clock
        local = moment.astimezone(clock)
        wall, second_pass = local.replace(tzinfo=None, fold=0), bool(local.fold)
        found = cron.after(wall)

        repeated = clock_change(clock, wall)  # the local time of a moment is never missing
        if repeated is not None:
            if twice and not second_pass and (found is None or found >= repeated.end):
                found, second_pass = cron.after(repeated.start - SECOND), True
            elif second_pass and not twice:
                found = cron.after(repeated.end - SECOND)
            if found is not None and found < repeated.end:
                return _utc(found - (repeated.after if second_pass else repeated.before))

        while found is not None and found.year <= wall.year + _HORIZON_YEARS:
            change = clock_change(clock, found)
            if change is None or not change.forward:
                return found.replace(tzinfo=clock).astimezone(UTC)
            if late:
                return _utc(change.moment)
            found = cron.after(change.end - SECOND)
        return None


@lru_cache(1024)
def _interval(expression: str) -> timedelta:
    try:
        interval = duration(expression.removeprefix("every "))
    except InvalidArgument as error:
        raise InvalidArgument(
            'an interval must be "every" and a duration such as "every 90s", "every 5m", "every 1.5h" or "every 1d", '
            f"got {shown(expression)}"
        ) from error
    if not _SHORTEST_INTERVAL <= interval <= _LONGEST_INTERVAL:
        raise InvalidArgument(f"an interval must be from 1s to 3650d, got {shown(expression)}")
    return interval


def _normalised(expression: str) -> str:
    """In lower case, with single spaces, and with L and W in capital letters, as people write them."""
    if not isinstance(expression, str):
        raise InvalidArgument(
            f'expression must be a string such as "0 9 * * mon", "@daily" or "every 90s", got {shown(expression)}'
        )
    if len(expression) > _LONGEST_EXPRESSION:
        raise InvalidArgument(
            f"expression must have at most {_LONGEST_EXPRESSION} characters, got {shown(expression)}; "
            "use ranges and steps instead of lists"
        )
    fields = expression.replace("\t", " ").lower().split()
    if not expression.isascii() or not expression.replace("\t", " ").isprintable() or not fields:
        raise InvalidArgument(
            f'expression must be one line of ASCII text such as "0 9 * * mon", got {shown(expression)}'
        )
    if fields[0].startswith("@"):
        if " ".join(fields) not in NAMED:
            raise InvalidArgument(
                f'expression must be one of {", ".join(NAMED)}, a cron expression, or an interval such as "every 5m", '
                f"got {shown(expression)}"
            )
    elif fields[0] == "every":
        fields = ["every", "".join(fields[1:])]
    elif len(fields) in (5, 6):
        fields[-3], fields[-1] = fields[-3].upper(), fields[-1].replace("l", "L")
    return " ".join(fields)


def _checked_timezone(name: str) -> None:
    if not isinstance(name, str):
        raise InvalidArgument(f'timezone must be a name such as "Europe/Oslo" or "UTC", got {shown(name)}')
    timezone_named(name)


def _aware(moment: datetime, name: str) -> datetime:
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise InvalidArgument(
            f"{name} must be a datetime with a time zone, such as datetime.now(UTC), got {shown(moment)}"
        )
    return moment


def _anchor(anchor: datetime) -> datetime:
    try:
        return _aware(anchor, "anchor").astimezone(UTC)
    except OverflowError as error:
        raise InvalidArgument(f"anchor must be from the year 1 to 9999 in UTC, got {shown(anchor)}") from error


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC)
