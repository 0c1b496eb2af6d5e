"""treadle schedules."""

from typing import Any

import pytest
from psycopg import Connection

from tests.support.commands import json_output_of, output_of, run_treadle

ADD = ("schedules", "add", "nightly", "0 3 * * *", "welcome", "user_id=7", "--app", "tests.support.cli_app:app")


@pytest.fixture(autouse=True)
def where(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_DATABASE_URL", url)


def test_an_expression_is_explained_with_its_next_times() -> None:
    first, *times = output_of("schedules", "preview", "30 9 * * mon", "--timezone", "Europe/Oslo").splitlines()
    assert first == "At 09:30 on Monday, Europe/Oslo time"
    assert len(times) == 5
    assert all(each.startswith("  Mon 20") and " 09:30:00 +0" in each for each in times)
    assert len(output_of("schedules", "preview", "every 90s", "--count", "3").splitlines()) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("preview", "61 * * * *"), "61"),
        (("preview", "* * * * *", "--timezone", "Mars/Base"), "Mars/Base"),
        (("pause", "nope"), "there is no schedule 'nope'; `treadle schedules` lists them"),
        (("change", "nope", "* * * * *"), "there is no schedule 'nope'"),
        (("add", "a", "* * * * *", "welcome"), "name it with --app module:app"),
        ((*ADD[1:5], "--app", ADD[7]), "user_id"),
        ((*ADD[1:], "--missed", "never"), "missed must be skip, latest or all, got 'never'"),
    ],
)
def test_mistakes_are_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    result = run_treadle("schedules", *arguments)
    assert result.exit_code in (1, 2)
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_schedule_is_added_listed_changed_paused_run_and_deleted(connection: Connection[Any]) -> None:
    assert run_treadle("schedules").stderr == "There are no schedules.\n"
    assert output_of(*ADD, "--timezone", "Europe/Oslo", "--overlap", "skip").startswith("Added nightly; next at ")
    assert "there is already a schedule 'nightly'" in run_treadle(*ADD).stderr
    heading, line = output_of("schedules").splitlines()
    assert heading.split() == ["NAME", "TYPE", "TIMES", "LAST", "NEXT", "STATE"]
    assert line.split() == ["nightly", "welcome", "0", "3", "*", "*", "*", "Europe/Oslo", "-", "-", "active"]
    assert output_of("schedules", "change", "nightly", "0 4 * * *").startswith("Changed nightly; next at ")
    assert " 04:00:00 +0" in output_of("schedules", "--next")
    assert "0 4 * * * Europe/Oslo" in output_of("schedules")  # the time zone is kept
    output_of("schedules", "change", "nightly", "0 4 * * *", "--timezone", "UTC")
    assert " 04:00:00 +0000" in output_of("schedules", "--next")
    assert output_of("schedules", "pause", "nightly", "--reason", "broken") == "Paused nightly\n"
    assert output_of("schedules", "pause", "nightly") == "It was paused already: nightly\n"
    assert json_output_of("schedules")[0]["paused_at"]
    assert output_of("schedules", "resume", "nightly") == "Resumed nightly\n"
    assert output_of("schedules", "run", "nightly") == "Enqueued a job of nightly\n"
    assert connection.execute("select data, origin ->> 'schedule' from jobs").fetchall() == [
        ({"user_id": 7}, "nightly")
    ]
    assert json_output_of("schedules", "delete", "nightly") == [{"name": "nightly", "changed": True}]
    reasons = connection.execute("select action, reason from audit order by id").fetchall()
    assert reasons[3] == ("pause schedule", "broken")
    assert [action for action, _ in reasons[4:]] == ["resume schedule", "run schedule", "delete schedule"]


def test_times_that_cannot_be_computed_are_shown(connection: Connection[Any]) -> None:
    connection.execute("select put_schedule('odd', 'report', '61 * * * *')")
    connection.execute("update schedules set error = 'not an expression'")
    assert "odd: not an expression" in output_of("schedules")
    assert output_of("schedules", "--next")
