"""Timetables against an independent calculation, in many time zones.

TREADLE_ALL_ZONES=1 compares every zone of the tz database and every change of its clocks from 2024 to 2030.
"""

import os
import random
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise, product, takewhile
from typing import Literal
from zoneinfo import ZoneInfo, available_timezones

import pytest
from cronsim import CronSim

from tests.support.cron_oracle import Change, Expression, changes, occurrences
from treadle.words.timetable import Timetable

ALL_ZONES = os.environ.get("TREADLE_ALL_ZONES") == "1"
START, END = datetime(2024, 1, 1), datetime(2031, 1, 1)

RARE = ["0 3 1 * *", "30 1 29 2 *", "@yearly", "0 0 L * *", "30 2 * * sun#2", "15 0 * 3,10 0L", "30 2 13 * fri"]
DAILY = ["30 2 * * *", "0 0 * * *", "15 1,2,3 * * sun", "59 23 * * *", "0,30 0-3 */2 * mon-sat", "*/20 1-2 * * *"]
DENSE = ["*/15 * * * *", "0 */2 * * *", "20,40 */10 * * * *", "30 30 2 * * *", "10,40 */13 0-3 * * *", "@hourly"]
NAMED = {"@yearly": "0 0 1 1 *", "@hourly": "0 * * * *"}

# Gaps of an hour and of half an hour, at night and at midnight; negative daylight saving time; Ramadan; offsets with
# minutes; a new standard offset in 2024; two zones whose clocks never change.
ZONES = [
    "Europe/Oslo",
    "America/New_York",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Africa/Casablanca",
    "Africa/Cairo",
    "America/Santiago",
    "Asia/Beirut",
    "Pacific/Chatham",
    "Asia/Almaty",
    "America/Scoresbysund",
    "America/Godthab",
    "Asia/Kathmandu",
    "UTC",
]

POLICIES: list[tuple[Literal["run_late", "skip"], Literal["run_once", "run_twice"]]] = list(
    product(("run_late", "skip"), ("run_once", "run_twice"))
)


class Comparison:
    """Of all expressions in one zone."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.zone = ZoneInfo(name)
        self.changes = changes(self.zone, START - timedelta(days=40), END + timedelta(days=40))
        self.random = random.Random(name)
        self.count = 0

    def compare(self, text: str, start: datetime, end: datetime, *, probes: int) -> None:
        for policy in POLICIES:
            self.compare_policy(text, start, end, *policy, probes=probes)

    def compare_policy(
        self,
        text: str,
        start: datetime,
        end: datetime,
        forward: Literal["run_late", "skip"],
        back: Literal["run_once", "run_twice"],
        *,
        probes: int,
    ) -> None:
        timetable = Timetable(text, self.name, forward, back)
        expected = occurrences(
            _expression(text),
            self.zone,
            self.changes,
            start,
            end,
            late=forward == "run_late",
            twice=back == "run_twice",
        )
        where = (text, self.name, forward, back)
        found = list(timetable.between(start.replace(tzinfo=UTC), end.replace(tzinfo=UTC)))
        assert found == expected, where
        assert all(earlier < later for earlier, later in pairwise(found)), where
        self.count += len(expected) + 1
        for _ in range(probes if expected else 0):
            moment = (start + self.random.random() * (expected[-1].replace(tzinfo=None) - start)).replace(tzinfo=UTC)
            following = bisect_right(expected, moment)
            if following < len(expected):
                assert timetable.after(moment) == expected[following], (*where, moment)
                self.count += 1


@cache
def _expression(text: str) -> Expression:
    return Expression(NAMED.get(text, text))


def near(change: Change, hours: int) -> tuple[datetime, datetime]:
    return change.moment - timedelta(hours=hours), change.moment + timedelta(hours=hours)


@pytest.mark.skipif(ALL_ZONES, reason="the full form below includes it")
@pytest.mark.parametrize("name", ZONES)
def test_timetables_agree_with_an_independent_calculation(name: str) -> None:
    comparison = Comparison(name)
    chosen = random.Random(name)
    for change in chosen.sample(comparison.changes, min(2, len(comparison.changes))):
        comparison.compare(chosen.choice(DAILY), *near(change, hours=27), probes=1)
        comparison.compare(chosen.choice(DENSE), *near(change, hours=3), probes=1)
    comparison.compare_policy(chosen.choice(RARE), START, END, *chosen.choice(POLICIES), probes=5)
    assert comparison.count > 5


@pytest.mark.parametrize("name", ["Europe/Oslo", "Australia/Lord_Howe", "Africa/Cairo"])
def test_fixed_times_are_those_of_cronsim_if_it_starts_well_before_a_change(name: str) -> None:
    """Elsewhere they differ: cronsim applies its rules neither to seconds nor to a wildcard in the minutes, goes back
    in time if it starts in the second pass of a repeated hour, and misses hours after changes by half an hour."""
    zone = ZoneInfo(name)
    for change in changes(zone, START, datetime(2026, 1, 1)):
        start, end = (each.replace(tzinfo=UTC) for each in near(change, hours=27))
        for text in ("30 2 * * *", "15 0,1,2,3 * * *", "59 23 * * *"):
            theirs = (each.astimezone(UTC) for each in CronSim(text, start.astimezone(zone)))
            expected = list(takewhile(end.__ge__, theirs))
            assert list(Timetable(text, name).between(start, end)) == expected


@pytest.mark.skipif(not ALL_ZONES, reason="takes minutes; set TREADLE_ALL_ZONES=1")
@pytest.mark.timeout(3600)
def test_timetables_agree_with_an_independent_calculation_in_all_zones() -> None:
    """Zones whose clocks agree from 2024 to 2030 form a group: one is compared in full, the others at each change."""
    count, groups = 0, set()
    for name in sorted(available_timezones() - {"localtime"}):
        comparison = Comparison(name)
        group = (START.replace(tzinfo=UTC).astimezone(comparison.zone).utcoffset(), *comparison.changes)
        full = group not in groups
        groups.add(group)
        for text in RARE if full else []:
            comparison.compare(text, START, END, probes=5)
        if full:
            comparison.compare_policy("30 2 * * *", START, END, "run_late", "run_once", probes=20)
        quiet = Change(datetime(2027, 7, 7), timedelta(0), timedelta(0))
        for change in [quiet, *(each for each in comparison.changes if START <= each.moment < END)]:
            for text in DAILY if full else ["15 0-3,23 * * *"]:
                comparison.compare(text, *near(change, hours=27), probes=2)
            for text in DENSE if full else []:
                comparison.compare(text, *near(change, hours=3), probes=2)
        count += comparison.count
        print(f"{name}: {count:,} comparisons, {len(groups)} groups", flush=True)
