"""The short form of `python -m chaos.schedules`, and its checker: a doubled, a missed and a wrong time are found."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from chaos.ledger import Record
from chaos.schedule_checker import Beat, check
from chaos.schedules import Fleet

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
BEATS = {"even": Beat("*/2 * * * * *", lambda moment: moment.second % 2 == 0)}


@pytest.mark.own_database
@pytest.mark.long
def test_no_time_is_doubled_or_missed_when_a_worker_is_killed(own_url: str, tmp_path: Path) -> None:
    fleet = Fleet(own_url, tmp_path, workers=2, seed=7)
    try:
        fleet.started()
        fleet.kill(0)
        fleet.wait(2.0)
        verdict = fleet.finish()
    finally:
        fleet.close()
    assert not verdict.problems, str(verdict)
    assert verdict.times > 60


def beat(second: int, before: int | None = None, job: str | None = None, late: float = 0.01) -> Record:
    def text(second: float) -> str:
        return str(NOON + timedelta(seconds=second))

    return {
        "what": "beat",
        "schedule": "even",
        "id": job or f"job {second}",
        "scheduled_for": text(second),
        "before": None if before is None else text(before),
        "created": text(second + late),
    }


GOOD = [beat(2), beat(4, 2), beat(6, 4), beat(8, 6)]


def checked(records: list[Record], until: int = 8) -> Any:
    return check(records, BEATS, (NOON + timedelta(seconds=until)).timestamp())


def test_each_time_with_one_job_is_as_it_should_be() -> None:
    verdict = checked([*GOOD, beat(6, 4)])
    assert not verdict.problems
    assert (verdict.times, verdict.again) == (4, 1)


def test_two_jobs_for_one_time_are_found() -> None:
    verdict = checked([*GOOD, beat(4, 2, job="other")])
    assert verdict.doubled == ["even has 2 jobs for 12:00:04: job 4, other"]


@pytest.mark.parametrize("second", [4, 8], ids=["in between", "the last"])
def test_a_time_without_a_job_is_found(second: int) -> None:
    verdict = checked([each for each in GOOD if each["id"] != f"job {second}"])
    assert verdict.missed == [f"even has no job for 12:00:0{second}"]


def test_a_schedule_that_never_ran_is_found() -> None:
    assert checked([]).missed == ["even never ran"]


@pytest.mark.parametrize("before", [None, 2, 6])
def test_a_wrong_time_before_is_found(before: int | None) -> None:
    verdict = checked([beat(2), beat(4, 2), beat(6, before), beat(8, 6)])
    assert len(verdict.wrong) == 1
    assert "job 6 for 12:00:06" in verdict.wrong[0]


def test_a_job_for_a_time_that_the_schedule_does_not_have_is_found() -> None:
    assert checked([*GOOD, beat(5, 4)]).wrong == ["even has a job for 12:00:05, which is not one of its times"]


def test_what_comes_after_the_end_is_not_checked() -> None:
    assert not checked([*GOOD, beat(20, 6)]).problems


def test_lateness_is_told_apart_from_that_near_a_fault() -> None:
    begin = (NOON + timedelta(seconds=5.5)).timestamp()
    fault = {"what": "fault", "begin": begin, "end": begin + 0.2}
    verdict = checked([beat(2), beat(4, 2), beat(6, 4, late=3.0), beat(8, 6), fault])
    assert verdict.late_in_calm == pytest.approx([0.01, 0.01, 0.01])
    assert max(verdict.late) == pytest.approx(3.0)
