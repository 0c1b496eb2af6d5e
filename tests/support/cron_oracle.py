"""When a cron expression is due, worked out slowly and without any code of Treadle or cronsim.

Around each change of the clocks, it walks over UTC time in small steps and looks at what a clock on the wall would
show. Elsewhere the offset is constant, so each local day is taken as a whole.
"""

import calendar
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from math import gcd
from zoneinfo import ZoneInfo

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_SECOND, _HOUR, _DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True)
class Change:
    """A change of the clocks: its moment in UTC, without a zone, and the offsets on both sides."""

    moment: datetime
    before: timedelta
    after: timedelta

    @property
    def margin(self) -> timedelta:
        return abs(self.after - self.before) + _HOUR


def changes(zone: ZoneInfo, start: datetime, end: datetime, step: timedelta = timedelta(hours=6)) -> list[Change]:
    """All changes between two moments in UTC, if none are closer together than the step."""
    found = []
    moment, after = start, _offset(zone, start)
    while moment < end:
        low, high = moment, moment + step
        before, after = after, _offset(zone, high)
        if before != after:
            while high - low > _SECOND:
                middle = low + (high - low) // _SECOND // 2 * _SECOND
                low, high = (middle, high) if _offset(zone, middle) == before else (low, middle)
            found.append(Change(high, before, after))
        moment += step
    return found


class Expression:
    def __init__(self, text: str) -> None:
        fields = text.split()
        if len(fields) == 5:
            fields.insert(0, "0")
        self.seconds = _values(fields[0], 0, 59)
        self.minutes = _values(fields[1], 0, 59)
        self.hours = _values(fields[2], 0, 23)
        self.day, self.weekday = fields[3], fields[5]
        self.months = _values(fields[4], 1, 12, _MONTHS)
        self.follows_clock = fields[2].startswith("*")
        self.step = timedelta(seconds=gcd(60, *self.seconds))
        self.times = [
            time(h, m, s) for h in sorted(self.hours) for m in sorted(self.minutes) for s in sorted(self.seconds)
        ]

    def matches(self, wall: datetime) -> bool:
        return (
            wall.minute in self.minutes
            and wall.hour in self.hours
            and wall.second in self.seconds
            and self.matches_date(wall.date())
        )

    @cache  # noqa: B019 - a few expressions in one test
    def matches_date(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        both = [self._matches_day(day), self._matches_weekday(day)]
        return all(both) if "*" in (self.day[0], self.weekday[0]) else any(both)

    def _matches_day(self, day: date) -> bool:
        if self.day == "L":
            return (day + _DAY).month != day.month
        return day.day in _values(self.day, 1, 31)

    def _matches_weekday(self, day: date) -> bool:
        weekday = (day.weekday() + 1) % 7
        name, _, number = self.weekday.partition("#")
        if number:
            weeks = calendar.Calendar(firstweekday=0).monthdatescalendar(day.year, day.month)
            same = [
                each for week in weeks for each in week if each.month == day.month and each.weekday() == day.weekday()
            ]
            return weekday in _values(name, 0, 7, _DAYS) and same[int(number) - 1 : int(number)] == [day]
        if self.weekday.endswith("L"):
            return weekday == int(self.weekday[:-1]) % 7 and (day + 7 * _DAY).month != day.month
        return weekday in {each % 7 for each in _values(self.weekday, 0, 7, _DAYS)}


def occurrences(
    expression: Expression,
    zone: ZoneInfo,
    zone_changes: list[Change],
    start: datetime,
    end: datetime,
    *,
    late: bool,
    twice: bool,
) -> list[datetime]:
    """After start, up to and including end, in UTC. Both are naive UTC, at whole minutes."""
    if expression.follows_clock:
        late, twice = False, True
    found: list[datetime] = []
    position = start
    for change in zone_changes:
        first, last = change.moment - change.margin, change.moment + change.margin
        if last < start or first > end:
            continue
        found += _quiet(expression, position, first, _offset(zone, first))
        found += _walk(expression, zone, first, last, late=late, twice=twice)
        position = last
    found += _quiet(expression, position, end + _SECOND, _offset(zone, position))
    return [each.replace(tzinfo=UTC) for each in found if start < each <= end]


def _quiet(expression: Expression, start: datetime, end: datetime, offset: timedelta) -> Iterator[datetime]:
    day = (start + offset).date()
    while datetime.combine(day, time()) - offset < end:
        if expression.matches_date(day):
            for each in expression.times:
                moment = datetime.combine(day, each) - offset
                if start <= moment < end:
                    yield moment
        day += _DAY


def _walk(
    expression: Expression, zone: ZoneInfo, start: datetime, end: datetime, *, late: bool, twice: bool
) -> Iterator[datetime]:
    shown: set[datetime] = set()
    moment, previous = start, None
    while moment < end:
        wall = moment + _offset(zone, moment)
        due = expression.matches(wall) and (twice or wall not in shown)
        if late and previous is not None:
            missing = previous + expression.step
            while missing < wall and not due:
                due = expression.matches(missing)
                missing += expression.step
        if due:
            yield moment
        shown.add(wall)
        moment, previous = moment + expression.step, wall


def _offset(zone: ZoneInfo, moment: datetime) -> timedelta:
    offset = moment.replace(tzinfo=UTC).astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def _values(field: str, lowest: int, highest: int, names: list[str] | None = None) -> set[int]:
    values: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        low = lowest if span == "*" else _number(first, lowest, names)
        high = highest if span == "*" or (step and not last) else _number(last or first, lowest, names)
        values |= set(range(low, high + 1, int(step or 1)))
    return values


def _number(text: str, lowest: int, names: list[str] | None) -> int:
    return names.index(text) + lowest if names and text in names else int(text)
