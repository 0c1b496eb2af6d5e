"""Limits in treadle top: their rows, the mark of lanes that wait for one, and the keys."""

from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg import Connection

from tests.cli.test_top import ENTER, ESCAPE, row_of
from tests.queue.test_limits import claim, enqueue, limit
from tests.support.screens import terminal
from tests.support.workers import until
from treadle import InvalidArgument, Treadle
from treadle.cli.top import limit_columns
from treadle.cli.top.actions import pause_or_resume_limit
from treadle.cli.top.limit_columns import is_at_limit
from treadle.words.limit_status import LimitStatus

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


@pytest.mark.long
def test_limits_are_listed_paused_and_resumed(url: str, app: Treadle, connection: Connection[Any]) -> None:
    limit(connection, 2, per="tenant")
    limit(connection, 10, 3600.0, name="api", burst=20, job_types=["other"])
    enqueue(connection, 5, "acme")
    claim(connection)
    claim(connection)
    connection.execute("select register_worker('live', '1 hour', '{sync}')")
    with terminal("top", "--database-url", url) as screen:
        # Where an operator looks first: the lane whose jobs wait.
        until(lambda: row_of(screen, "types", "sync").endswith("at limit"), screen.text)
        screen.press("l")
        screen.wait_for("limits 3", "waiting▾", "in use", "next")
        assert row_of(screen, "limits", "sync").split() == ["sync", "acme", "2/2", "3", "when", "one", "ends"]
        assert row_of(screen, "limits", "api").split() == ["api", "20", "left", "0", "now"]
        assert max(map(len, screen.lines())) <= 80
        screen.press("p")
        screen.wait_for("Pause the limit sync for tenant acme? Running jobs continue, no new ones start.", "yes / no")
        screen.press("y")
        screen.wait_for("Paused sync for tenant acme.")
        until(lambda: row_of(screen, "limits", "sync").endswith("paused"), screen.text)
        screen.press("p")
        screen.wait_for("Resume the limit sync for tenant acme? It was paused by top:")
        screen.press("y")
        screen.wait_for("Resumed sync for tenant acme.")
        until(lambda: row_of(screen, "limits", "sync").endswith("when one ends"), screen.text)
        screen.press("c")
        screen.wait_for("Select a job to cancel it.")
        screen.press("/api")
        screen.wait_for("limits 1 ")
        screen.press(ESCAPE)
        screen.wait_for("limits 3")
        screen.press("\x1b[H" + ENTER)  # Home
        screen.wait_for("type: sync", "limits 2 ")
        screen.press(ESCAPE)
        screen.wait_for("limits 3")
        screen.press("l")
        screen.wait_for("progress")
        screen.resize(140, 40)
        screen.press("l")
        screen.wait_for("2 at once", "10 per hour, burst 20", "changed by", "l limits")
    actions = connection.execute("select action, actor ~ '^top:' from audit order by id").fetchall()
    assert actions == [("limit", True), ("reset limit", True)]


@pytest.fixture
def row() -> LimitStatus:
    known = {"name": "a\x1b[2J", "job_types": ["sync"], "queues": ["slow"], "kind": "concurrency", "in_code": True}
    numbers = {"amount": 3, "in_use": 1, "lanes": 0, "waiting": 0, "exact": True, "at": NOW}
    return LimitStatus(**dict.fromkeys(LimitStatus._fields) | known | numbers)  # type: ignore[arg-type]


def test_cells(row: LimitStatus) -> None:
    def cells(**changed: Any) -> list[str]:
        return [str(column.cell(row._replace(**changed), 20)) for column in limit_columns.LIMITS.columns]

    assert cells() == ["a [2J", "", "3 at once", "1/3", "0", "now", ""]
    assert cells(per="tenant", in_use=None)[1:] == ["each tenant", "3 at once", "", "0", "", ""]
    assert cells(per="tenant", key="")[1] == "no tenant"
    assert cells(waiting=500, exact=False, in_use=3)[3:6] == ["3/3", "500+", "when one ends"]
    assert cells(kind="fairness", amount=5, in_use=None)[2:] == ["weight 5", "", "", "", ""]
    assert cells(kind="pending", when_full="drop", in_use=3)[2:6] == ["3 waiting, then drop", "3/3", "", "full"]
    rows = [row, row._replace(waiting=3), row._replace(in_use=3), row._replace(waiting=1000)]
    (order,) = [each.order for each in limit_columns.LIMITS.columns if each.title == "waiting"]
    assert order is not None
    assert [each.waiting for each in sorted(rows, key=order)] == [1000, 3, 0, 0]
    assert sorted(rows, key=order)[2].reached


def test_which_lanes_wait(row: LimitStatus) -> None:
    waits = [row._replace(waiting=1)]
    assert is_at_limit("sync", "default", waits)
    assert is_at_limit("other", "slow", waits)
    assert not is_at_limit("other", "default", waits)
    assert not is_at_limit("sync", "default", [row])


def test_what_cannot_be_paused_or_resumed(row: LimitStatus) -> None:
    with pytest.raises(InvalidArgument, match="does not limit which jobs start"):
        pause_or_resume_limit(row._replace(kind="fairness"), "ann")
    for paused in (row._replace(amount=0), row._replace(amount=0, changed_at=NOW, in_code=False)):
        with pytest.raises(InvalidArgument, match="to resume it, set an amount: treadle limits set "):
            pause_or_resume_limit(paused, "ann")
