"""Schedules in treadle top: their rows, their history as dots, and the keys."""

from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from psycopg import Connection

from tests.cli.test_top import DOWN, ENTER, ESCAPE, row_of
from tests.support.screens import terminal
from tests.support.workers import until
from treadle import JobQueue
from treadle.cli.top import schedule_columns
from treadle.cli.top.refresh import SCHEDULES
from treadle.cli.top.schedule_columns import DOTS, ScheduleNow, strip
from treadle.words.schedule_status import Occurrence, ScheduleStatus, State
from treadle.words.status import Status

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


def put(connection: Connection[Any], name: str, next_in: str = "1 hour") -> None:
    connection.execute("select put_schedule(%s, 'report', '0 3 * * *')", [name])
    connection.execute("update schedules set next_at = now() + %s::interval where name = %s", [next_in, name])


@pytest.mark.long
def test_schedules_are_listed_paused_run_and_opened(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    put(connection, "nightly", "3 hours")
    put(connection, "hourly")
    connection.execute("select operate_schedule('run', 'nightly')")
    queue.complete(queue.claim(["report"])[0])
    connection.execute("insert into occurrences values ('nightly', now() - interval '1 day', null, 'missed')")
    connection.execute("select operate_schedule('run', 'nightly')")
    with terminal("top", "--database-url", url) as screen:
        screen.wait_for("No jobs are running.")
        screen.press("t")
        screen.wait_for("schedules 2", "next▾", "history", "state")
        assert "!●○" in row_of(screen, "schedules", "nightly")
        assert row_of(screen, "schedules", "hourly").split()[:2] == ["hourly", "in"]
        assert row_of(screen, "schedules", "hourly").endswith("active")
        assert max(map(len, screen.lines())) <= 80
        screen.press("p")
        screen.wait_for("Pause the schedule hourly? No jobs are enqueued until it is resumed. yes / no")
        screen.press("y")
        screen.wait_for("Paused hourly.")
        until(lambda: row_of(screen, "schedules", "hourly").endswith("paused"), screen.text)
        # The paused one has no next time, and is the last one now.
        screen.press("p")
        screen.wait_for("Resume the schedule hourly? It was paused at")
        screen.press("n")
        screen.press("\x1b[H")  # Home
        screen.press("r")
        screen.wait_for("Enqueue a job of nightly now")
        screen.press("y")
        screen.wait_for("Enqueued a job of nightly.")
        until(lambda: "!●○○" in row_of(screen, "schedules", "nightly"), screen.text)
        screen.press("c")
        screen.wait_for("Select a job to cancel it.")
        screen.press(ENTER)
        screen.wait_for("report", "attempt 0 of 3", "waiting for a worker")
        screen.press(ESCAPE)
        screen.wait_for("schedules 2")
        screen.press(DOWN + ENTER)
        screen.wait_for("The schedule has enqueued no job yet.")
        screen.press("/night")
        screen.wait_for("Filter by job type: night▏", "schedules 1 ")
        screen.press(ENTER)
        screen.wait_for("type: night", "q quit")
        assert "hourly" not in screen.text()
        screen.press(ESCAPE)
        screen.wait_for("hourly")
        screen.press("t")
        screen.wait_for("No jobs are running.")
        screen.resize(140, 40)
        screen.press("t")
        screen.wait_for("0 3 * * *", "last job", "t schedules")
    actions = connection.execute(
        "select action, actor ~ '^top:' from audit where action not in ('put schedule') order by id desc limit 2"
    ).fetchall()
    assert actions == [("run schedule", True), ("pause schedule", True)]


def test_a_filter_finds_schedules_beyond_those_that_are_shown(url: str, connection: Connection[Any]) -> None:
    connection.execute(
        """insert into schedules (name, job_type, expression)
        select 's' || to_char(n, 'fm0000'), 'report', '0 0 * * *' from generate_series(1, 1000) as n"""
    )
    with terminal("top", "--database-url", url) as screen:
        screen.press("t")
        screen.wait_for(f"of {SCHEDULES}+")
        screen.press("/s0777" + ENTER)
        screen.wait_for("schedules 1 ", "s0777")


def test_the_strip_has_the_newest_on_the_right() -> None:
    outcomes = [*(status.value for status in Status), "skipped", "missed", "deleted"]
    assert set(outcomes) == set(DOTS)
    history = [Occurrence(NOW, None, each) for each in outcomes]
    assert strip(history, 20).plain == "○○▸●✗⊘-!·"
    assert strip(history, 3).plain == "-!·"


def test_states_and_times() -> None:
    nothing = dict.fromkeys(ScheduleStatus._fields)
    known = {"name": "a\x1b[2J", "job_type": "b", "expression": "d", "state": "active", "history": []}
    base = ScheduleStatus(**nothing | known)  # type: ignore[arg-type]

    def cells(**changed: Any) -> list[str]:
        now = ScheduleNow(base._replace(**changed), NOW)
        return [str(column.cell(now, 20)) for column in schedule_columns.SCHEDULES.columns]

    assert cells() == ["a [2J", "b", "d", "", "", "", "", "active"]
    assert cells(next_at=NOW + timedelta(seconds=5))[3] == "in 5s"
    assert cells(next_at=NOW - timedelta(seconds=5))[3:] == ["now", "", "", "", "active"]
    assert cells(next_at=NOW - timedelta(seconds=20))[7] == "late"
    assert cells(last_at=NOW - timedelta(minutes=2), last_outcome="completed")[4:6] == ["2m 00s", "✓ completed"]
    assert cells(last_outcome="deleted")[5] == "deleted"
    rows = [ScheduleNow(base._replace(state=each), NOW) for each in get_args(State)]
    for column, expected in (("state", ["error", "paused"]), ("next", ["error", "active"])):
        (order,) = [each.order for each in schedule_columns.SCHEDULES.columns if each.title == column]
        assert order is not None
        assert [each.state for each in sorted(rows, key=order)][:2] == expected
