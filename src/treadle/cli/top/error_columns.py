"""The table of error groups and its columns."""

from datetime import datetime
from typing import NamedTuple

from treadle.cli.errors import TREND_HOURS, trend_text
from treadle.cli.top.table import Column, TableSpec
from treadle.words.error_group import ErrorGroup
from treadle.words.formatting import count, printable, span


class ErrorsNow(NamedTuple):
    """A group of failed attempts, and when it was read, by the clock of the database."""

    group: ErrorGroup
    at: datetime


def _ago(now: ErrorsNow, moment: datetime) -> str:
    return span(max(0.0, (now.at - moment).total_seconds()))


def _type(now: ErrorsNow, _: int) -> str:
    return printable(now.group.job_type)


ERRORS = TableSpec[ErrorsNow](
    name="errors",
    columns=[
        Column("type", _type, 2, grows=True, order=lambda now: now.group.job_type),
        Column("id", lambda now, _: str(now.group.id), 6, right=True),
        Column("24h", lambda now, _: count(now.group.last_day), 7, right=True, order=lambda now: -now.group.last_day),
        Column("total", lambda now, _: count(now.group.failures), 8, right=True, min_table_width=90),
        Column("trend", lambda now, _: trend_text(now.group.trend), TREND_HOURS),
        Column("first", lambda now, _: _ago(now, now.group.first_seen), 8, right=True, min_table_width=100),
        Column(
            "last",
            lambda now, _: _ago(now, now.group.last_seen),
            8,
            right=True,
            order=lambda now: -now.group.last_seen.timestamp(),
        ),
        Column(
            "version",
            lambda now, _: printable(now.group.versions[0]) if now.group.versions else "",
            10,
            min_table_width=110,
        ),
        Column("error", lambda now, _: printable(now.group.title), 4, grows=True),
    ],
    key=lambda now: now.group.id,
    sort_by="24h",
    empty="There are no errors.",
    dimmed=lambda now: not now.group.last_day,
)
