"""Which times of a schedule are enqueued, and which is the next."""

from datetime import UTC, datetime, timedelta

import pytest

from treadle.words.job import Origin
from treadle.words.schedule import DueSchedule, Plan, plan

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def due(
    next_at: datetime | None,
    clock: datetime = NOON,
    expression: str = "* * * * *",
    missed: str = "latest",
    missed_limit: int = 100,
    starts_at: datetime | None = None,
    ends_at: datetime | None = None,
) -> DueSchedule:
    return DueSchedule(
        "s",
        expression,
        "UTC",
        "run_late",
        "run_once",
        missed,
        missed_limit,
        starts_at,
        ends_at,
        next_at,
        None,
        0.0,
        clock,
    )


def test_a_new_schedule_begins_with_its_next_time() -> None:
    assert plan(due(None)) == Plan([], [], NOON + MINUTE)


def test_a_time_that_is_due_is_enqueued() -> None:
    assert plan(due(NOON, NOON + timedelta(seconds=1))) == Plan([NOON], [], NOON + MINUTE)


def test_after_a_downtime_the_latest_time_is_enqueued() -> None:
    times = [NOON - n * MINUTE for n in range(5, -1, -1)]
    assert plan(due(times[0])) == Plan(times[-1:], times[:-1], NOON + MINUTE)


@pytest.mark.parametrize(("late", "enqueued"), [(timedelta(seconds=59), 1), (timedelta(seconds=61), 0)])
def test_what_was_missed_is_skipped_on_request(late: timedelta, enqueued: int) -> None:
    found = plan(due(NOON, NOON + late, "0 12 * * *", missed="skip"))
    assert (len(found.times), len(found.missed)) == (enqueued, 1 - enqueued)


def test_all_times_that_were_missed_are_enqueued_on_request_up_to_a_limit() -> None:
    found = plan(due(NOON - 10 * MINUTE, missed="all", missed_limit=3))
    assert found.times == [NOON - 2 * MINUTE, NOON - MINUTE, NOON]
    assert len(found.missed) == 8


def test_a_year_of_missed_seconds_takes_no_time() -> None:
    found = plan(due(NOON - timedelta(days=365), expression="* * * * * *"))
    assert found.times == [NOON]
    assert len(found.missed) == 99


def test_times_lie_between_start_and_end() -> None:
    assert plan(due(None, starts_at=NOON + 5 * MINUTE)).next_at == NOON + 5 * MINUTE
    assert plan(due(None, ends_at=NOON + MINUTE)).next_at == NOON + MINUTE
    assert plan(due(None, ends_at=NOON + MINUTE / 2)).next_at is None
    ended = plan(due(NOON - 5 * MINUTE, ends_at=NOON - 3 * MINUTE))
    assert (ended.times, ended.next_at) == ([NOON - 3 * MINUTE], None)


def test_after_the_clock_was_set_back_nothing_is_enqueued_early() -> None:
    assert plan(due(NOON + MINUTE, NOON)) == Plan([], [], NOON + MINUTE)


def test_an_origin_is_read_in_any_time_zone() -> None:
    found = Origin.read('{"schedule": "s", "for": "2026-06-01T14:00:00+02:00", "before": null}')
    assert found == Origin("s", NOON, None)
    assert found.scheduled_for.tzinfo is UTC
