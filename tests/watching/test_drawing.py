"""How a watched job is drawn as a bar and described in words."""

import io
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from rich.cells import cell_len
from rich.console import Console

from treadle import Progress, Status
from treadle.watching.bars import Bars
from treadle.watching.states import describe_state
from treadle.words import formatting
from treadle.words.record import RecordedEvent
from treadle.words.snapshot import JobSnapshot

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)


def snapshot(**changes: Any) -> JobSnapshot:
    job = JobSnapshot(uuid4(), "films", Status.RUNNING, Progress(0, None), 1, 3, None, False, 0, NOW, NOW, None, at=NOW)
    return job._replace(**changes)


def draw(*jobs: JobSnapshot, width: int = 80, events: list[RecordedEvent] | None = None) -> list[str]:
    console = Console(width=width, height=24, file=io.StringIO(), force_terminal=True, color_system=None)
    made = Bars(console)
    made._jobs = list(jobs)
    made._events.extend(events or [])
    with console.capture() as captured:
        console.print(made.draw())
    return captured.get().splitlines()


def test_the_bars_fit_into_any_width() -> None:
    long = snapshot(
        job_type="a_very_long_name_of_a_job_type_indeed",
        progress=Progress(61, "importing / the second part of it / 東京", 1_234_567, 2_000_000_000, 21_234.4, 90_000.0),
    )
    failed = snapshot(status=Status.FAILED, error="x" * 500)
    event = RecordedEvent(long.id, long.job_type, "checked", {"text": "y" * 500}, NOW, 1, 1, "1")
    for width in (40, 60, 80, 100, 200):
        for line in draw(long, failed, snapshot(), width=width, events=[event]):
            assert cell_len(line) <= width
    (line,) = draw(long)
    assert "importing / the" in line
    assert line.endswith("…  1d 1h left")


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (snapshot(status=Status.COMPLETED, finished_at=NOW + timedelta(seconds=4.21)), "completed in 4.2s"),
        (
            snapshot(status=Status.COMPLETED, attempts=2, finished_at=NOW + timedelta(minutes=3, seconds=20)),
            "completed in 3m 20s, on attempt 2",
        ),
        (snapshot(status=Status.COMPLETED, started_at=None), "completed"),
        (snapshot(status=Status.FAILED, attempts=3, error="no good"), "failed on attempt 3 of 3: no good"),
        (snapshot(status=Status.CANCELLED), "cancelled"),
        (snapshot(status=Status.PENDING, run_at=NOW + timedelta(hours=2, minutes=5)), "due in 2h 05m"),
        (snapshot(status=Status.PENDING, may_be_blocked=True), "waiting for other jobs"),
        (snapshot(status=Status.PENDING), "waiting for a worker"),
        (snapshot(status=Status.PENDING, error="no", run_at=NOW + timedelta(seconds=2.1)), "retries in 3s: no"),
        (snapshot(status=Status.PENDING, error="no"), "retries now: no"),
        (snapshot(status=Status.CLAIMED), "about to start"),
    ],
)
def test_a_job_that_does_not_run_is_described(job: JobSnapshot, expected: str) -> None:
    assert describe_state(job) == expected


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (Progress(1, None), []),
        (Progress(1, None, 7), ["7"]),
        (Progress(1, None, 7, 9, 0.5, 4.0), ["7/9", "30/min", "4s left"]),
        (Progress(1, None, 7, 9, 0.0, None), ["7/9"]),
        (Progress(1, None, 999_999, 1_000_000, 3.14, 61.0), ["999,999/1.0M", "3.1/s", "1m 01s left"]),
    ],
)
def test_the_pace_is_described(progress: Progress, expected: list[str]) -> None:
    assert formatting.pace(progress) == expected
