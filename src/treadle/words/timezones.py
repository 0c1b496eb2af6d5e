"""Time zones, and the moments at which their clocks change."""

import difflib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from treadle.words.errors import InvalidArgument, shown

SECOND = timedelta(seconds=1)

# Every part of a name in the tz database begins with a capital letter. That excludes "localtime", which differs between
# machines, "right/Europe/Oslo", which counts leap seconds, and "europe/oslo", which only some file systems find.
_NAME = re.compile(r"[A-Z][A-Za-z0-9_+-]*(?:/[A-Z][A-Za-z0-9_+-]*){0,3}")
_LONGEST_NAME = 64


@lru_cache(1024)
def timezone_named(name: str) -> tzinfo:
    """The time zone of this name in the tz database. Raises InvalidArgument if there is none."""
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    if len(name) <= _LONGEST_NAME and _NAME.fullmatch(name):
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):  # OSError: the name of a folder, such as "Europe"
            pass
    raise InvalidArgument(_unknown(name))


def _unknown(name: str) -> str:
    from zoneinfo import available_timezones

    known = available_timezones()
    if not known:
        return f"timezone {shown(name)} cannot be looked up, as this system has no time zones; run: pip install tzdata"
    names = {each.lower(): each for each in known if _NAME.fullmatch(each)}
    text = name.lower() if len(name) <= _LONGEST_NAME else ""
    # An abbreviation resembles many others, and the nearest one is seldom meant: "CEST" and "EST".
    cities = [each for each in names if "/" in each]
    close = [text] if text in names else difflib.get_close_matches(text, cities, n=1, cutoff=0.8)
    remedy = f'; did you mean "{names[close[0]]}"?' if close else ""
    return f'timezone must be a name of the tz database such as "Europe/Oslo" or "UTC", got {shown(name)}{remedy}'


@dataclass(frozen=True, slots=True)
class ClockChange:
    """The local times from `start` up to, but not including, `end` are missing or come twice.

    All are naive: `moment` is in UTC, `start` and `end` are local.
    """

    moment: datetime
    before: timedelta
    after: timedelta

    @property
    def forward(self) -> bool:
        return self.after > self.before

    @property
    def start(self) -> datetime:
        return self.moment + min(self.before, self.after)

    @property
    def end(self) -> datetime:
        return self.moment + max(self.before, self.after)


def clock_change(clock: tzinfo, wall: datetime) -> ClockChange | None:
    """The change because of which this naive local time is missing or comes twice. None: it comes once."""
    before, after = _offset(clock, wall), _offset(clock, wall.replace(fold=1))
    if before == after:
        return None
    wall = wall.replace(microsecond=0)
    earlier, later = sorted((wall - before, wall - after))
    while later - earlier > SECOND:
        middle = earlier + (later - earlier) // SECOND // 2 * SECOND
        if _offset(clock, middle.replace(tzinfo=UTC).astimezone(clock)) == before:
            earlier = middle
        else:
            later = middle
    return ClockChange(later, before, after)


def _offset(clock: tzinfo, local: datetime) -> timedelta:
    offset = clock.utcoffset(local)
    assert offset is not None  # noqa: S101 - only a tzinfo of an unknown time would have none
    return offset
