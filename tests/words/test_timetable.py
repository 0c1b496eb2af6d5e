"""When a schedule is due. tests/words/test_timetable_oracle.py compares many zones with an independent calculation."""

import random
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest

from tests.support.cron_oracle import Expression, changes, occurrences
from treadle.words.errors import InvalidArgument
from treadle.words.timetable import Timetable


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local(timetable: Timetable, start: str, count: int) -> list[str]:
    """The next occurrences as local times with their offsets."""
    zone = ZoneInfo(timetable.timezone)
    found, each = [], datetime.fromisoformat(start).astimezone(UTC)
    for _ in range(count):
        following = timetable.after(each)
        assert following is not None
        assert following.tzinfo is UTC
        found.append(following.astimezone(zone).isoformat(" "))
        each = following
    return found


@pytest.mark.parametrize(
    ("expression", "normalised", "first", "second"),
    [
        ("0 9 * * mon", "0 9 * * mon", "2024-05-20 09:00", "2024-05-27 09:00"),
        ("  0\t9 *  * MON ", "0 9 * * mon", "2024-05-20 09:00", "2024-05-27 09:00"),
        ("*/10 * * * * *", "*/10 * * * * *", "2024-05-15 12:30:20", "2024-05-15 12:30:30"),
        ("5 30 12 * * *", "5 30 12 * * *", "2024-05-16 12:30:05", "2024-05-17 12:30:05"),
        ("15,45 9-17/4 * * *", "15,45 9-17/4 * * *", "2024-05-15 13:15", "2024-05-15 13:45"),
        ("10/20 * * * *", "10/20 * * * *", "2024-05-15 12:50", "2024-05-15 13:10"),
        ("0 0 1 JAN,jul *", "0 0 1 jan,jul *", "2024-07-01", "2025-01-01"),
        ("0 0 l * *", "0 0 L * *", "2024-05-31", "2024-06-30"),
        ("0 0 lw * *", "0 0 LW * *", "2024-05-31", "2024-06-28"),
        ("0 0 * jul 5l", "0 0 * jul 5L", "2024-07-26", "2025-07-25"),
        ("0 0 * * mon#2", "0 0 * * mon#2", "2024-06-10", "2024-07-08"),
        ("0 0 * * 7", "0 0 * * 7", "2024-05-19", "2024-05-26"),
        ("0 0 29 2 *", "0 0 29 2 *", "2028-02-29", "2032-02-29"),
        ("@yearly", "@yearly", "2025-01-01", "2026-01-01"),
        ("@annually", "@annually", "2025-01-01", "2026-01-01"),
        ("@monthly", "@monthly", "2024-06-01", "2024-07-01"),
        ("@weekly", "@weekly", "2024-05-19", "2024-05-26"),
        ("@Daily", "@daily", "2024-05-16", "2024-05-17"),
        ("@midnight", "@midnight", "2024-05-16", "2024-05-17"),
        ("@hourly", "@hourly", "2024-05-15 13:00", "2024-05-15 14:00"),
        ("every 90s", "every 90s", "2024-05-15 12:31:30", "2024-05-15 12:33:00"),
        ("Every  1.5 h", "every 1.5h", "2024-05-15 13:30", "2024-05-15 15:00"),
        ("every 1d", "every 1d", "2024-05-16", "2024-05-17"),
        ("every 1.5s", "every 1.5s", "2024-05-15 12:30:12", "2024-05-15 12:30:13.5"),
    ],
)
def test_an_expression_is_normalised_and_due(expression: str, normalised: str, first: str, second: str) -> None:
    timetable = Timetable(expression)
    assert timetable.expression == normalised
    assert timetable == Timetable(normalised)
    assert hash(timetable) == hash(Timetable(normalised))
    start = moment("2024-05-15 12:30:11.5")
    assert list(timetable.between(start, moment(second))) == [moment(first), moment(second)]


def test_a_day_of_the_month_or_a_weekday_is_enough_unless_one_of_them_begins_with_a_star() -> None:
    start, end = moment("2024-09-01"), moment("2024-09-30")
    assert [each.day for each in Timetable("0 0 13 * fri").between(start, end)] == [6, 13, 20, 27]
    assert [each.day for each in Timetable("0 0 */10 * fri").between(start, moment("2024-12-31"))] == [11, 1]
    assert [each.day for each in Timetable("0 0 13 * */5").between(start, end)] == [13]


def test_an_occurrence_is_strictly_after_the_moment() -> None:
    daily = Timetable("0 9 * * *", "Europe/Oslo")
    at = moment("2024-05-15 07:00")
    instant = timedelta(microseconds=1)
    assert daily.after(at - instant) == at
    assert daily.after(at) == daily.after(at + instant) == at + timedelta(days=1)
    zones: list[tzinfo] = [ZoneInfo("Asia/Kathmandu"), timezone(-timedelta(hours=23, minutes=59)), UTC]
    for zone in zones:
        assert daily.after((at - instant).astimezone(zone)) == at
        assert daily.after(at.astimezone(zone)) == at + timedelta(days=1)


def test_between_excludes_its_start_and_includes_its_end() -> None:
    hourly = Timetable("@hourly")
    one, three = moment("2024-05-15 01:00"), moment("2024-05-15 03:00")
    assert [each.hour for each in hourly.between(one, three)] == [2, 3]
    assert list(hourly.between(three, one)) == list(hourly.between(one, one)) == []


def test_intervals_count_from_their_anchor_in_both_directions_and_ignore_the_time_zone() -> None:
    anchor = datetime(2024, 1, 1, 1, 0, 7, tzinfo=ZoneInfo("Europe/Oslo"))
    timetable = Timetable("every 7m", "America/New_York", anchor=anchor)
    assert timetable.anchor == moment("2024-01-01 00:00:07")
    assert timetable.after(anchor) == moment("2024-01-01 00:07:07")
    assert timetable.after(anchor - timedelta(seconds=1)) == anchor
    assert timetable.after(moment("2023-12-31 23:50")) == moment("2023-12-31 23:53:07")
    assert timetable == Timetable("every 7m", "America/New_York", anchor=anchor.astimezone(UTC))
    later = timetable.after(moment("2124-01-01"))
    assert later is not None
    assert (later - anchor) % timedelta(minutes=7) == timedelta(0)


def test_a_missing_time_runs_late_or_not_at_all() -> None:
    late, skip = Timetable("30 2 * * *", "Europe/Oslo"), Timetable("30 2 * * *", "Europe/Oslo", clocks_forward="skip")
    start = "2024-03-30T12:00+01:00"
    assert local(late, start, 2) == ["2024-03-31 03:00:00+02:00", "2024-04-01 02:30:00+02:00"]
    assert local(skip, start, 2) == ["2024-04-01 02:30:00+02:00", "2024-04-02 02:30:00+02:00"]


def test_several_missing_times_run_late_only_once() -> None:
    assert local(Timetable("0,15,30 2,3 * * *", "Europe/Oslo"), "2024-03-31T01:00+01:00", 3) == [
        "2024-03-31 03:00:00+02:00",
        "2024-03-31 03:15:00+02:00",
        "2024-03-31 03:30:00+02:00",
    ]


def test_a_repeated_time_runs_once_or_twice() -> None:
    once = Timetable("0,30 2 * * *", "Europe/Oslo")
    twice = Timetable("0,30 2 * * *", "Europe/Oslo", clocks_back="run_twice")
    first = ["2024-10-27 02:00:00+02:00", "2024-10-27 02:30:00+02:00"]
    second = ["2024-10-27 02:00:00+01:00", "2024-10-27 02:30:00+01:00"]
    assert local(once, "2024-10-27T00:00+02:00", 3) == [*first, "2024-10-28 02:00:00+01:00"]
    assert local(twice, "2024-10-27T00:00+02:00", 5) == [*first, *second, "2024-10-28 02:00:00+01:00"]
    # Asked within the second pass.
    assert local(once, "2024-10-27T02:10+01:00", 1) == ["2024-10-28 02:00:00+01:00"]
    assert local(twice, "2024-10-27T02:10+01:00", 1) == ["2024-10-27 02:30:00+01:00"]
    # At the end of the repeated hour.
    for start in ("2024-10-27T02:10:00.5+02:00", "2024-10-27T02:10:00.5+01:00"):
        assert local(Timetable("0 3 * * *", "Europe/Oslo"), start, 1) == ["2024-10-27 03:00:00+01:00"]


@pytest.mark.parametrize("hour", ["*", "*/1", "0-23"])
@pytest.mark.parametrize("policy", [{}, {"clocks_forward": "skip", "clocks_back": "run_twice"}])
def test_a_wildcard_in_the_hours_follows_the_clock(hour: str, policy: dict[str, Any]) -> None:
    timetable = Timetable(f"30 {hour} * * *", "Europe/Oslo", **policy)
    assert local(timetable, "2024-03-31T00:45+01:00", 3) == [
        "2024-03-31 01:30:00+01:00",
        "2024-03-31 03:30:00+02:00",
        "2024-03-31 04:30:00+02:00",
    ]
    assert local(timetable, "2024-10-27T01:45+02:00", 3) == [
        "2024-10-27 02:30:00+02:00",
        "2024-10-27 02:30:00+01:00",
        "2024-10-27 03:30:00+01:00",
    ]


@pytest.mark.parametrize(
    ("expression", "zone", "start", "expected"),
    [
        # The clocks go from 02:00 to 02:30, and from 02:00 back to 01:30.
        ("15 2 * * *", "Australia/Lord_Howe", "2024-10-05T16:00+11:00", "2024-10-06 02:30:00+11:00"),
        ("0 */2 * * *", "Australia/Lord_Howe", "2024-04-07T01:45+10:30", "2024-04-07 02:00:00+10:30"),
        # From midnight to 01:00, and from midnight back to 23:00.
        ("0 0 * * *", "Africa/Cairo", "2024-04-25T12:00+02:00", "2024-04-26 01:00:00+03:00"),
        ("30 23 * * *", "Africa/Cairo", "2024-10-31T23:10+02:00", "2024-11-01 23:30:00+02:00"),
        # A day that was left out.
        ("0 9 * * *", "Pacific/Apia", "2011-12-29T12:00-10:00", "2011-12-31 00:00:00+14:00"),
        ("0 9 * * *", "Pacific/Apia", "2011-12-31T00:00+14:00", "2011-12-31 09:00:00+14:00"),
        ("0 */6 * * *", "Pacific/Apia", "2011-12-29T20:00-10:00", "2011-12-31 00:00:00+14:00"),
        ("30 12 21 8 *", "Pacific/Kwajalein", "1993-08-01T12:00-12:00", "1993-08-22 00:00:00+12:00"),
        # Negative daylight saving time, in winter and during Ramadan.
        ("30 1 * * *", "Europe/Dublin", "2024-03-30T12:00+00:00", "2024-03-31 02:00:00+01:00"),
        ("30 1 * * *", "Europe/Dublin", "2024-10-27T01:40+00:00", "2024-10-28 01:30:00+00:00"),
        ("30 2 * * *", "Africa/Casablanca", "2024-03-10T02:10+00:00", "2024-03-11 02:30:00+00:00"),
        ("30 2 * * *", "Africa/Casablanca", "2024-04-13T12:00+00:00", "2024-04-14 03:00:00+01:00"),
        # A new standard offset.
        ("30 23 * * *", "Asia/Almaty", "2024-02-29T23:10+05:00", "2024-03-01 23:30:00+05:00"),
        # Long after the last change that the tz database lists one by one.
        ("30 2 * * *", "Europe/Oslo", "2124-03-25T12:00+01:00", "2124-03-26 03:00:00+02:00"),
    ],
)
def test_unusual_changes_of_the_clocks(expression: str, zone: str, start: str, expected: str) -> None:
    assert local(Timetable(expression, zone), start, 1) == [expected]


@pytest.mark.parametrize(
    ("zone", "day"),
    [("Pacific/Apia", datetime(2011, 12, 30)), ("Pacific/Kwajalein", datetime(1993, 8, 21))],
)
def test_a_day_that_was_left_out_agrees_with_the_independent_calculation(zone: str, day: datetime) -> None:
    start, end = day - timedelta(days=4), day + timedelta(days=4)
    found = changes(ZoneInfo(zone), start, end)
    assert len(found) == 1
    for text in ("0 9,17 * * *", "0 */5 * * *"):
        for late in (True, False):
            timetable = Timetable(text, zone, "run_late" if late else "skip")
            expected = occurrences(Expression(text), ZoneInfo(zone), found, start, end, late=late, twice=False)
            assert list(timetable.between(start.replace(tzinfo=UTC), end.replace(tzinfo=UTC))) == expected


def test_a_time_that_never_comes_is_none_and_is_found_out_quickly() -> None:
    never = Timetable("30 2 * 3 sun#2", "America/New_York", clocks_forward="skip")
    started = time.process_time()
    assert never.after(moment("2024-01-01")) is None
    assert time.process_time() - started < 0.5
    assert list(never.between(moment("2024-01-01"), moment("2200-01-01"))) == []


def test_dense_times_within_a_change_of_the_clocks_are_found_quickly() -> None:
    skip = Timetable("* * 0-22 * * *", "Pacific/Apia", "skip")
    once = Timetable("* * 2 * * *", "Europe/Oslo")
    started = time.process_time()
    assert skip.after(moment("2011-12-30 09:59:59")) == moment("2011-12-30 10:00:00")
    assert once.after(moment("2024-10-27 01:00:00")) == moment("2024-10-28 01:00:00")
    assert time.process_time() - started < 0.1


def test_the_first_and_last_years_of_the_calendar() -> None:
    for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
        for expression in ("@daily", "* * * * * *", "every 90s", "every 3650d", "0 0 29 2 */7"):
            timetable = Timetable(expression, zone)
            for offset in (-14, 0, 14):
                edge = timezone(timedelta(hours=offset))
                first = timetable.after(datetime.min.replace(tzinfo=edge))
                assert first is not None
                assert first > datetime.min.replace(tzinfo=UTC)
                last = timetable.after(datetime.max.replace(tzinfo=edge))
                assert last is None or last > datetime.max.replace(tzinfo=edge)
    assert Timetable("@yearly").after(moment("9999-06-01")) is None
    assert Timetable("@daily").after(moment("9999-12-30 12:00")) == moment("9999-12-31")


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("61 * * * *", r"the minute of '61 \* \* \* \*' must be .* 0 to 59, got '61'"),
        ("* 24 * * *", "the hour of .* 0 to 23, got '24'"),
        ("61 * * * * *", "the second of .* 0 to 59, got '61'"),
        ("* * 0 * *", "the day-of-month of .* 1 to 31, L .*, got '0'"),
        ("* * ? * *", "the day-of-month of .*, got '\\?'"),
        ("* * * foo *", "the month of .* 1 to 12 or jan to dec, got 'foo'"),
        ("* * * * sat-sun", "the day-of-week of .*, got 'sat-sun'"),
        ("* * * * fri#6", "the day-of-week of .*, got 'fri#6'"),
        ("*/0 * * * *", "the minute of .*, got '\\*/0'"),
        ("*/90 * * * *", 'the step in the minute of .* must be at most 60, .* use "every"'),
        ("* * * *", "expression must have 5 fields .*, or 6 with the second first, got 4 in"),
        ("* * * * * * *", "got 7 in"),
        ("0 0 30 2 *", "expression '0 0 30 2 \\*' never matches a date; correct its days and months"),
        ("0 0 */31 2 mon#5", "never matches a date"),
        ("@reboot", "one of @yearly, .*, or an interval such as \"every 5m\", got '@reboot'"),
        ("@every 5m", 'such as "every 5m"'),
        ("every 0s", "an interval must be from 1s to 3650d, got 'every 0s'"),
        ("every 999ms", "from 1s to 3650d"),
        ("every 3651d", "from 1s to 3650d"),
        ("every -5s", 'must be "every" and a duration such as "every 90s"'),
        ("every 5 minutes", 'such as "every 90s"'),
        ("every 99999999999999999999w", 'such as "every 90s"'),
        ("every", 'such as "every 90s"'),
        ("", "one line of ASCII text"),
        ("   ", "one line of ASCII text"),
        ("* * * * *\n", "one line of ASCII text"),
        ("* * *\0 * *", "one line of ASCII text"),
        ("\x1b[31m * * * *", "one line of ASCII text"),
        ("* * * * ٣", "one line of ASCII text"),
        ("1," * 2500 + "1 * * * *", "at most 1000 characters, .* ranges and steps"),
        ("9" * 900 + " * * * *", "the minute of .* characters"),
        ("*/" + "9" * 900 + " * * * *", "the step in the minute of .* characters"),
        (None, "expression must be a string such as"),
        (5, "expression must be a string such as .*, got 5"),
        (b"* * * * *", "expression must be a string"),
        ([], "expression must be a string"),
    ],
)
def test_an_invalid_expression_is_refused(expression: Any, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem) as caught:
        Timetable(expression)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("zone", "problem"),
    [
        ("Mars/Base", 'timezone must be a name of the tz database such as "Europe/Oslo" or "UTC", got \'Mars/Base\'$'),
        ("CEST", "got 'CEST'$"),
        ("europe/oslo", 'did you mean "Europe/Oslo"'),
        ("Europe/Olso", 'did you mean "Europe/Oslo"'),
        ("utc", 'did you mean "UTC"'),
        ("Europe", "got 'Europe'"),
        ("localtime", "got 'localtime'$"),
        ("right/UTC", "got 'right/UTC'"),
        ("../../etc/passwd", "got '../../etc/passwd'$"),
        ("/etc/localtime", "got '/etc/localtime'"),
        ("Europe/../Europe/Oslo", "timezone must be"),
        ("Europe/Oslo\0", "timezone must be"),
        ("Europe/Oslo\n", "timezone must be"),
        ("A" * 5000, "timezone must be"),
        ("", "got ''"),
        ("+02:00", "timezone must be"),
        (None, "timezone must be a name such as .*, got None"),
        ([], "timezone must be a name"),
        (UTC, "timezone must be a name"),
    ],
)
def test_an_invalid_time_zone_is_refused(zone: Any, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem) as caught:
        Timetable("@daily", zone)
    assert len(str(caught.value)) < 300


def test_a_system_without_time_zones_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> ZoneInfo:
        raise ZoneInfoNotFoundError(name)

    monkeypatch.setattr("zoneinfo.ZoneInfo", missing)
    monkeypatch.setattr("zoneinfo.available_timezones", set)
    with pytest.raises(InvalidArgument, match=r"'Europe/Vaduz' cannot be looked up.* run: pip install tzdata"):
        Timetable("@daily", "Europe/Vaduz")
    assert Timetable("@daily", "UTC").after(moment("2024-01-01")) == moment("2024-01-02")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"clocks_forward": "shift"}, 'clocks_forward must be "run_late" or "skip", got \'shift\''),
        ({"clocks_back": ["run_once"]}, 'clocks_back must be "run_once" or "run_twice", got'),
        ({"anchor": datetime(2024, 1, 1, tzinfo=UTC)}, 'anchor is only for intervals such as "every 90s"'),
        ({"expression": "every 5m", "anchor": datetime(2024, 1, 1)}, "anchor must be a datetime with a time zone"),
        (
            {"expression": "every 5m", "anchor": datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))},
            "anchor must be from the year 1 to 9999 in UTC",
        ),
        ({"expression": "every 5m", "anchor": "2024-01-01"}, "anchor must be a datetime with a time zone"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        Timetable(**{"expression": "@daily"} | options)


@pytest.mark.parametrize("value", [datetime(2024, 1, 1), datetime(2024, 1, 1).date(), "2024-01-01", None])
def test_a_moment_needs_a_time_zone(value: Any) -> None:
    aware, timetable = moment("2024-01-01"), Timetable("@daily")
    calls: list[Callable[[], object]] = [
        lambda: timetable.after(value),
        lambda: timetable.between(value, aware),
        lambda: timetable.between(aware, value),
    ]
    for call in calls:
        with pytest.raises(InvalidArgument, match="must be a datetime with a time zone"):
            call()


@pytest.mark.parametrize(
    ("timetable", "description"),
    [
        (Timetable("0 9 * * mon", "Europe/Oslo"), "At 09:00 on Monday, Europe/Oslo time"),
        (Timetable("@daily"), "At 00:00 every day, UTC"),
        (Timetable("*/10 * * * * *"), "Every 10th second of every minute, UTC"),
        (Timetable("0 0 13 * fri"), "At 00:00 on the 13th day of month and on Friday, UTC"),
        (Timetable("every 90s", "Europe/Oslo"), "Every 90 seconds"),
        (Timetable("every 1h"), "Every hour"),
        (Timetable("every 1.5h"), "Every 1.5 hours"),
        (
            Timetable("every 1d", anchor=datetime(2024, 1, 1, 6, tzinfo=UTC)),
            "Every day, counted from 2024-01-01 06:00:00 UTC",
        ),
    ],
)
def test_a_timetable_describes_itself(timetable: Timetable, description: str) -> None:
    assert timetable.description() == description


def test_any_text_is_either_a_timetable_or_refused() -> None:
    chance = random.Random(1)
    start, accepted = moment("2024-05-15 12:30"), 0
    for _ in range(400):
        fields = ["".join(chance.choices("0123*/-,#LW", k=chance.choice([1, 1, 2, 3, 5]))) for _ in range(6)]
        text = " ".join(chance.choice([field, "*", "*"]) for field in fields[chance.choice([0, 1, 1, 2]) :])
        try:
            timetable = Timetable(text, "Australia/Lord_Howe")
        except InvalidArgument:
            continue
        accepted += 1
        assert Timetable(timetable.expression, timetable.timezone) == timetable
        following = timetable.after(start)
        assert following is None or following > start
        assert timetable.description()
    assert accepted > 40


def test_cronsim_is_loaded_only_with_the_first_cron_expression() -> None:
    code = (
        "import sys; from treadle.words.timetable import Timetable; Timetable('every 90s', 'UTC').description(); "
        "assert not {'cronsim', 'zoneinfo'} & set(sys.modules); Timetable('@daily'); assert 'cronsim' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
