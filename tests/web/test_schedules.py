"""Schedules on the dashboard: the list, its live updates, the actions of operators, and the API."""

import json
import re
from typing import Any

import httpx
import pytest
from psycopg import Connection

from tests.support.dashboards import OPERATOR, VIEWER, Browser, Site
from tests.support.web import Server, messages
from tests.support.workers import one
from treadle import JobQueue
from treadle.web.dashboard.pages.schedules import SCHEDULES

SECRET = "cannot reach postgresql://ada:hush-hush-hush-hush@db/films"  # noqa: S105 - a test


@pytest.fixture
def viewer(site: Site) -> Browser:
    return site.signed_in(VIEWER)


@pytest.fixture
def program(site: Site) -> Browser:
    return site.program(OPERATOR)


def get(browser: Browser, path: str) -> str:
    answer = browser.get(path)
    assert answer.status_code == 200, answer.text
    return re.sub(r"\s+", " ", answer.text)


def put(connection: Connection[Any], name: str = "nightly", expression: str = "0 3 * * *") -> None:
    connection.execute("select put_schedule(%s, 'report', %s, p_timezone => 'Europe/Oslo')", [name, expression])


def audit(connection: Connection[Any]) -> list[Any]:
    return connection.execute(
        "select action, actor, reason, details ->> 'schedule' from audit where action <> 'put schedule' order by id"
    ).fetchall()


# The list


def test_an_empty_list_shows_how_to_add_a_schedule(operator: Browser) -> None:
    assert "treadle schedules add" in get(operator, "/schedules")


def test_the_list_shows_times_state_and_history(operator: Browser, connection: Connection[Any]) -> None:
    put(connection)
    connection.execute("select operate_schedule('run', 'nightly')")
    connection.execute("update jobs set status = 'failed', finished_at = now()")
    connection.execute("insert into occurrences (schedule, scheduled_for, skipped) values ('nightly', now(), 'missed')")
    connection.execute("update schedules set next_at = now() + interval '1 hour'")
    put(connection, "broken", "61 * * * *")
    connection.execute("update schedules set error = %s where name = 'broken'", [SECRET])
    page = get(operator, "/schedules")
    job = one(connection, "select id from jobs")
    assert "At 03:00 every day, Europe/Oslo time <code>0 3 * * *</code>" in page
    assert page.count(f'href="/jobs/{job}"') == 2  # the last job, and its dot
    assert f'<a class="dot failed" tabindex="-1" href="/jobs/{job}"' in page
    assert '<span class="dot missed"' in page
    assert "1 failed, 1 missed</span>" in page
    assert "cannot reach postgresql://ada:********@db" in page
    assert "hush" not in page
    assert "2 schedules" in page
    assert 'href="/schedules/pause?name=nightly&amp;back=%2Fschedules"' in page


def test_the_page_of_a_schedule_shows_why_and_its_history(operator: Browser, connection: Connection[Any]) -> None:
    put(connection, "a/b & c")
    connection.execute("select operate_schedule('run', 'a/b & c')")
    connection.execute("insert into occurrences values ('a/b & c', now() - interval '1 day', null, 'missed')")
    job = one(connection, "select id from jobs")
    assert 'href="/schedule?name=a%2Fb+%26+c"' in get(operator, "/schedules")
    page = get(operator, "/schedule?name=a%2Fb+%26+c")
    assert "There is no live worker to enqueue its jobs." in page
    assert f'<a class="job-id" href="/jobs/{job}">' in page
    assert "no worker could enqueue it in time" in page
    assert 'href="/schedules/pause?name=a%2Fb+%26+c&amp;back=%2Fschedule%3Fname%3Da%252Fb%2B%2526%2Bc"' in page
    form = {"name": "a/b & c", "back": "/schedule?name=a%2Fb+%26+c"}
    answer = operator.post("/schedules/pause", form)
    assert answer.headers["location"] == "/schedule?name=a%2Fb+%26+c&done=pause"
    assert "The schedule is paused: dashboard:Ada paused it" in get(operator, answer.headers["location"])
    assert operator.get("/schedule?name=nope").status_code == 404
    assert operator.get("/schedule").status_code in (400, 404)


def test_viewers_see_no_actions(viewer: Browser, connection: Connection[Any]) -> None:
    put(connection)
    page = get(viewer, "/schedules")
    assert "nightly" in page
    assert "/schedules/pause" not in page
    assert "/schedules/pause" not in get(viewer, "/schedule?name=nightly")


def test_a_late_schedule_is_marked(operator: Browser, connection: Connection[Any]) -> None:
    put(connection)
    connection.execute("update schedules set next_at = now() - interval '10 seconds'")
    assert ">late<" not in get(operator, "/schedules")
    connection.execute("update schedules set next_at = now() - interval '20 seconds'")
    assert ">late<" in get(operator, "/schedules")


def test_the_list_has_pages_filters_and_a_bounded_count(operator: Browser, connection: Connection[Any]) -> None:
    connection.execute(
        """insert into schedules (name, job_type, expression)
        select 's' || to_char(n, 'fm0000'), 'report', '0 0 * * *' from generate_series(1, 1200) as n"""
    )
    page = get(operator, "/schedules")
    assert page.count("<tr>") == SCHEDULES + 1
    assert "More than 1,000 schedules" in page
    assert 'rel="next" href="/schedules?after=s0050"' in page
    second = get(operator, "/schedules?after=s0050")
    assert "s0051" in second
    assert 'href="/schedules/pause?name=s0051&amp;back=%2Fschedules%3Fafter%3Ds0050"' in second
    found = get(operator, "/schedules?search=S0777&state=active")
    assert (found.count("<tr>"), "1 schedule<" in found) == (2, True)
    assert "No matching schedules." in get(operator, "/schedules?state=paused")
    assert operator.get("/schedules?state=lost").status_code == 400
    assert operator.get(f"/schedules?search={'x' * 101}").status_code == 400


def test_the_list_is_updated_live(dashboard: Server, connection: Connection[Any]) -> None:
    put(connection)
    with httpx.stream("GET", f"{dashboard.url}/live/schedules?state=paused", timeout=60) as response:
        updates = messages(response)
        assert "No matching schedules." in next(updates).data["html"]["schedules"]
        assert next(updates).data["html"] == {}  # nothing has changed
        connection.execute("select operate_schedule('pause', 'nightly')")
        while "schedules" not in (update := next(updates)).data["html"]:
            pass
        assert "nightly" in update.data["html"]["schedules"]


# What operators change


def test_an_operator_pauses_resumes_and_runs_a_schedule(
    operator: Browser, queue: JobQueue, connection: Connection[Any]
) -> None:
    put(connection, "a/b?c=d")
    for action, notice in (("pause", "Paused."), ("resume", "Resumed."), ("run", "Job enqueued.")):
        get(operator, f"/schedules/{action}?name=a/b%3Fc%3Dd&back=/schedules%3Fstate%3Dactive")
        form = {"name": "a/b?c=d", "reason": f"{action} it", "back": "/schedules?state=active"}
        answer = operator.post(f"/schedules/{action}", form)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/schedules?state=active&done={action}")
        assert notice in get(operator, answer.headers["location"])
    assert [job.job_type for job in queue.list().jobs] == ["report"]
    assert audit(connection) == [
        (f"{action} schedule", "dashboard:Ada", f"{action} it", "a/b?c=d") for action in ("pause", "resume", "run")
    ]
    audited = get(operator, "/audit")
    assert "run schedule" in audited
    assert "schedule=a/b?c=d" in audited


def test_nothing_to_change_is_said(operator: Browser, connection: Connection[Any]) -> None:
    put(connection)
    get(operator, "/schedules/resume?name=nightly")
    answer = operator.post("/schedules/resume", {"name": "nightly"})
    assert answer.headers["location"] == "/schedules?unfit=resume"
    assert "It is not paused." in get(operator, answer.headers["location"])
    assert audit(connection) == []


def test_a_schedule_that_does_not_exist_is_an_error_page(operator: Browser) -> None:
    for path in ("/schedules/pause?name=nope", "/schedules/run"):
        assert operator.get(path).status_code == 404
    get(operator, "/schedules")
    operator.get("/audit")
    assert operator.post("/schedules/pause", {"name": "nope"}).status_code == 404
    assert operator.post("/schedules/pause", {}).status_code == 400


def test_changes_need_the_role_and_the_csrf_token(
    site: Site, viewer: Browser, operator: Browser, connection: Connection[Any]
) -> None:
    put(connection)
    assert viewer.post("/schedules/pause", {"name": "nightly"}).status_code == 403
    assert operator.post("/schedules/pause", {"name": "nightly", "csrf_token": "x"}).status_code == 403
    assert site.browser().post("/schedules/pause", {"name": "nightly"}).status_code == 401
    assert audit(connection) == []


# The API


def test_the_api_lists_schedules(site: Site, connection: Connection[Any]) -> None:
    for name in ("a", "b", "c"):
        put(connection, name)
    connection.execute("select operate_schedule('run', 'a')")
    connection.execute("update schedules set error = %s where name = 'b'", [SECRET])
    viewer = site.program(VIEWER)
    first = viewer.send("GET", "/api/schedules?limit=2").json()
    assert [each["name"] for each in first["schedules"]] == ["a", "b"]
    assert (first["next"], first["total"], first["exact"]) == ("b", 3, True)
    assert [each["outcome"] for each in first["schedules"][0]["history"]] == ["pending"]
    assert first["schedules"][0]["last_outcome"] == "pending"
    assert first["schedules"][0]["description"] == "At 03:00 every day, Europe/Oslo time"
    assert first["schedules"][1]["state"] == "error"
    assert "hush" not in json.dumps(first)
    rest = viewer.send("GET", "/api/schedules?after=b").json()
    assert ([each["name"] for each in rest["schedules"]], rest["next"]) == (["c"], None)
    assert viewer.send("GET", "/api/schedules?state=lost").status_code == 400
    assert viewer.send("GET", "/api/schedules?limit=201").status_code == 400


def test_the_api_changes_schedules(site: Site, program: Browser, connection: Connection[Any]) -> None:
    put(connection)
    body = {"name": "nightly", "reason": "r"}
    for action, done in (("pause", True), ("pause", False), ("resume", True), ("resume", False), ("run", True)):
        answer = program.send("POST", f"/api/schedules/{action}", json=body)
        assert (answer.status_code, answer.json()) == (200, {"done": done})
    assert [row[:3] for row in audit(connection)] == [
        (f"{action} schedule", "dashboard:token (operator)", "r") for action in ("pause", "resume", "run")
    ]
    assert site.program(VIEWER).send("POST", "/api/schedules/pause", json=body).status_code == 403
    assert program.send("POST", "/api/schedules/pause", json={"name": "nope"}).status_code == 404
    assert program.send("POST", "/api/schedules/pause", json={}).status_code == 400
