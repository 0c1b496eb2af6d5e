"""Cron expressions: which local times they match. A timetable handles daylight saving time."""

import re
from copy import copy
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from treadle.words.errors import InvalidArgument, shown

if TYPE_CHECKING:
    from cronsim import CronSim  # imported when the first cron expression is parsed

NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * sun",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = {
    "second": "0 to 59",
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, L (the last day) or LW (the last weekday)",
    "month": "1 to 12 or jan to dec",
    "day-of-week": "0 to 7 (0 and 7 are Sunday), sun to sat, 5L (the last Friday) or mon#2 (the second Monday)",
}
_LARGEST_STEPS = {"second": 60, "minute": 60, "hour": 24, "day-of-month": 31, "month": 12, "day-of-week": 7}
_ANY_DATE = datetime(2000, 1, 1)


class ParsedCron:
    """A parsed cron expression, on local time without a zone."""

    def __init__(self, search: "CronSim", hour: str) -> None:
        self.search = search
        self.follows_clock = "*" in hour or len(search.hours) == 24

    def after(self, wall: datetime) -> datetime | None:
        search = copy(self.search)  # parsing again would cost 30 µs
        search.dt = wall.replace(microsecond=0)
        return next(search, None)


@lru_cache(4096)  # 10 MB if full
def cron_expression(expression: str) -> ParsedCron:
    """The parsed expression. Raises InvalidArgument if it is wrong or matches no date."""
    from cronsim import CronSim, CronSimError

    fields = NAMED.get(expression, expression).split(" ")
    if len(fields) not in (5, 6):
        raise InvalidArgument(
            "expression must have 5 fields (minute hour day-of-month month day-of-week), or 6 with the second first, "
            f"got {len(fields)} in {shown(expression)}"
        )
    named = dict(zip(list(_FIELDS)[-len(fields) :], fields, strict=True))
    try:
        cron = ParsedCron(CronSim(" ".join(fields), _ANY_DATE), named["hour"])
    except CronSimError as error:
        for name, field in named.items():
            _check_field(name, field, expression)
        raise _never(expression) from error
    for name, field in named.items():
        _check_steps(name, field, expression)
    if cron.after(_ANY_DATE) is None:
        raise _never(expression)
    return cron


def _check_field(name: str, field: str, expression: str) -> None:
    from cronsim import CronSim, CronSimError

    try:
        CronSim(" ".join(field if each == name else "*" for each in _FIELDS), _ANY_DATE)
    except CronSimError as error:
        raise InvalidArgument(
            f"the {name} of {shown(expression)} must be *, or values, ranges, lists or steps of {_FIELDS[name]}, "
            f"got {shown(field)}"
        ) from error


def _check_steps(name: str, field: str, expression: str) -> None:
    """Cron would take */90 in the minutes for once an hour."""
    for step in re.findall(r"/(\d+)", field):
        if int(step) > _LARGEST_STEPS[name]:
            raise InvalidArgument(
                f"the step in the {name} of {shown(expression)} must be at most {_LARGEST_STEPS[name]}, "
                f'got {shown(field)}; for longer intervals use "every", such as "every 90m"'
            )


def _never(expression: str) -> InvalidArgument:
    return InvalidArgument(f"expression {shown(expression)} never matches a date; correct its days and months")
