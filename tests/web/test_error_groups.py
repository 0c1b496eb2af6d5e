"""Groups of errors on the dashboard: the list, the page of one, live updates, the actions of operators, the API."""

import json
import re
from typing import Any

import httpx
import pytest
from psycopg import Connection

from tests.support.browser import Visit
from tests.support.dashboards import OPERATOR, VIEWER, Browser, Site
from tests.support.error_groups import count_now, fail, groups
from tests.support.web import Server, messages
from treadle import JobQueue, Treadle
from treadle.web.dashboard.pages.error_groups import bars


@pytest.fixture
def group(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> int:
    """Three failed jobs and one that waits for another attempt; the number of their group."""
    connection.execute("insert into worker_versions (worker_id, version) values ('worker-1', 'v7')")
    fail(queue, [f"ValueError: order {n} <b>is</b> gone" for n in range(3)])
    fail(queue, ["ValueError: order 7 <b>is</b> gone"], retries=True)
    count_now(app)
    connection.execute("update error_groups set example_traceback = e'Traceback:\\n  x\\nValueError: password=hunter2'")
    return groups(app)["ValueError: order <number> <b>is</b> gone"].id


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


def statuses(connection: Connection[Any]) -> dict[str, int]:
    return dict(connection.execute("select status, count(*) from jobs group by status").fetchall())


# Pages


def test_without_failures_the_list_says_so(viewer: Browser) -> None:
    assert "No errors. Failed attempts appear here a few seconds after they fail" in get(viewer, "/errors")
    assert '<a href="/errors" aria-current="page">Errors</a>' in get(viewer, "/errors")


def test_groups_are_listed_with_their_trend(group: int, viewer: Browser) -> None:
    page = get(viewer, "/errors")
    assert f'<a href="/errors/{group}"><strong>ValueError</strong>' in page
    assert "order &lt;number&gt; &lt;b&gt;is&lt;/b&gt; gone" in page
    assert 'aria-label="4 in the last 24 hours, at most 4 in an hour"' in page or "at most" in page
    assert '<rect class="failed" x="92"' in page or '<rect class="failed" x="88"' in page
    assert '<td data-label="Versions">v7</td>' in page
    assert "No matching errors." in get(viewer, "/errors?type=b")
    assert "No matching errors." in get(viewer, "/errors?queue=b")
    assert f"/errors/{group}" in get(viewer, "/errors?type=a&queue=default&order=first_seen")


def test_the_page_of_a_group_has_an_example_and_its_jobs(group: int, viewer: Browser) -> None:
    page = get(viewer, f"/errors/{group}")
    assert "Traceback: x ValueError: password=" in page
    assert "hunter2" not in page
    assert page.count('class="job-id"') == 4
    assert "<strong>v7</strong> 4" in page
    assert "Retry failed jobs" not in page


def test_the_page_of_a_failed_job_links_to_its_group(
    group: int, viewer: Browser, connection: Connection[Any], queue: JobQueue
) -> None:
    row = connection.execute("select id from jobs where status = 'failed' limit 1").fetchone()
    assert row
    assert f'href="/errors/{group}">All failures like the last one</a>' in get(viewer, f"/jobs/{row[0]}")
    assert "All failures like" not in get(viewer, f"/jobs/{queue.enqueue('a')}")


def test_a_muted_group_is_folded_away(group: int, operator: Browser) -> None:
    operator.post(f"/errors/{group}/mute", {"until": "1d", "reason": "known"})
    page = get(operator, "/errors")
    assert "No errors apart from those that are muted" in page
    assert '<details id="muted-errors" class="muted-errors"><summary>1 muted</summary>' in page
    assert "Muted by dashboard:Ada" in get(operator, f"/errors/{group}")


@pytest.mark.parametrize("wrong", ["0", "x", "99999999999", "7777", "-1", "1.5"])
def test_a_group_that_does_not_exist_is_not_found(wrong: str, operator: Browser, program: Browser) -> None:
    answer = operator.get(f"/errors/{wrong}")
    assert answer.status_code == 404
    assert "There is no error group" in answer.text
    assert program.get(f"/api/errors/{wrong}").status_code == 404
    assert operator.post(f"/errors/{wrong}/mute").status_code == 404
    assert operator.get(f"/errors/{wrong}/retry").status_code == 404


# Actions


def test_failed_jobs_are_retried_after_a_confirmation(
    group: int, operator: Browser, connection: Connection[Any]
) -> None:
    page = get(operator, f"/errors/{group}/retry")
    assert "<h1>Retry 3 jobs</h1>" in page
    assert statuses(connection) == {"failed": 3, "pending": 1}
    answer = operator.post(f"/errors/{group}/retry", {"reason": "fixed"})
    assert answer.headers["location"] == f"/errors/{group}?bulk=retry&done=3"
    assert statuses(connection) == {"pending": 4}
    assert connection.execute("select distinct actor, action, reason from audit").fetchall() == [
        ("dashboard:Ada", "retry", "fixed")
    ]
    assert "No job of this group is failed now." in get(operator, f"/errors/{group}/retry")


def test_a_form_that_is_sent_twice_is_carried_out_once(
    group: int, operator: Browser, queue: JobQueue, connection: Connection[Any], app: Treadle
) -> None:
    found = re.search('name="act" value="([^"]+)"', get(operator, f"/errors/{group}/retry"))
    assert found
    operator.post(f"/errors/{group}/retry", {"act": found[1]})
    for job in queue.claim(["a"]):
        queue.fail(job, "ValueError: order 9 <b>is</b> gone", final=True)
    count_now(app)
    again = operator.post(f"/errors/{group}/retry", {"act": found[1]})
    assert again.status_code == 409
    assert statuses(connection) == {"failed": 3, "pending": 1}
    assert connection.execute("select count(*) from audit where begins").fetchone() == (1,)


def test_pending_retries_are_cancelled(group: int, operator: Browser, connection: Connection[Any]) -> None:
    assert "<h1>Cancel 1 job</h1>" in get(operator, f"/errors/{group}/cancel")
    operator.post(f"/errors/{group}/cancel")
    assert statuses(connection) == {"failed": 3, "cancelled": 1}


def test_a_group_is_muted_and_unmuted(group: int, operator: Browser, connection: Connection[Any]) -> None:
    answer = operator.post(f"/errors/{group}/mute", {"until": "version"})
    assert answer.headers["location"] == f"/errors/{group}?done=mute"
    page = get(operator, answer.headers["location"])
    assert "until a new version fails" in page
    assert "Unmute" in page
    assert operator.post(f"/errors/{group}/unmute").headers["location"] == f"/errors/{group}?done=unmute"
    assert operator.post(f"/errors/{group}/unmute").headers["location"] == f"/errors/{group}?unfit=unmute"
    assert "It is not muted." in get(operator, f"/errors/{group}?unfit=unmute")
    assert operator.post(f"/errors/{group}/mute", {"until": "soon"}).status_code == 400
    assert [row[0] for row in connection.execute("select action from audit order by id")] == [
        "mute errors",
        "unmute errors",
    ]


@pytest.mark.parametrize("action", ["retry", "cancel", "mute", "unmute"])
def test_a_viewer_changes_nothing(
    action: str, group: int, viewer: Browser, site: Site, connection: Connection[Any]
) -> None:
    assert viewer.post(f"/errors/{group}/{action}").status_code == 403
    assert site.program(VIEWER).send("POST", f"/api/errors/{group}/{action}").status_code == 403
    if action in ("retry", "cancel"):
        assert viewer.get(f"/errors/{group}/{action}").status_code == 403
    assert statuses(connection) == {"failed": 3, "pending": 1}
    assert connection.execute("select count(*) from audit").fetchone() == (0,)


# API


def test_the_api_lists_and_shows_groups(group: int, site: Site) -> None:
    viewer = site.program(VIEWER)
    found = viewer.get("/api/errors?type=a&order=last_seen&muted=false").json()
    assert [(each["id"], each["failures"], sum(each["trend"])) for each in found["groups"]] == [(group, 4, 4)]
    details = viewer.get(f"/api/errors/{group}").json()
    assert (len(details["failed"]["jobs"]), len(details["pending"]["jobs"])) == (3, 1)
    assert "hunter2" not in json.dumps(details)
    assert details["versions"][0]["version"] == "v7"
    assert viewer.get("/api/errors?order=x").status_code == 400
    assert viewer.get("/api/errors?muted=true").json()["groups"] == []


def test_the_api_changes_groups(group: int, program: Browser, connection: Connection[Any]) -> None:
    def post(action: str, **body: Any) -> Any:
        answer = program.send("POST", f"/api/errors/{group}/{action}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert post("retry", reason="fixed") == {"done": 3, "unfit": 0, "busy": 0, "missing": 0, "next": None}
    assert post("cancel")["done"] == 4
    assert post("mute", seconds=60, reason="known") == {"done": True}
    assert program.get("/api/errors?muted=true").json()["groups"][0]["muted"]["reason"] == "known"
    assert post("unmute") == {"done": True}
    assert post("unmute") == {"done": False}
    assert program.send("POST", f"/api/errors/{group}/mute", json={"seconds": 0}).status_code == 400
    assert program.send("POST", f"/api/errors/{group}/retry", json={"after": "x"}).status_code == 400
    assert statuses(connection) == {"cancelled": 4}


def test_a_request_with_a_number_of_its_own_is_carried_out_once(
    group: int, program: Browser, app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    body = {"act": "0198f3a0-0000-7000-8000-000000000001"}
    assert program.send("POST", f"/api/errors/{group}/retry", json=body).json()["done"] == 3
    fail(queue, ["ValueError: order 12 <b>is</b> gone"])
    count_now(app)
    assert program.send("POST", f"/api/errors/{group}/retry", json=body).status_code == 409
    assert connection.execute("select distinct act::text from audit").fetchall() == [(body["act"],)]


# Live


def test_the_pages_are_live(app: Treadle, queue: JobQueue, dashboard: Server, group: int) -> None:
    with httpx.stream("GET", f"{dashboard.url}/live/errors?order=failures", timeout=60) as response:
        updates = messages(response)
        assert "ValueError" in next(updates).data["html"]["errors"]
        fail(queue, ["TypeError: x"], "b")
        count_now(app)
        while "errors" not in (update := next(updates)).data["html"]:
            pass
        assert "TypeError" in update.data["html"]["errors"]
    with httpx.stream("GET", f"{dashboard.url}/live/errors/{group}", timeout=60) as response:
        assert next(messages(response)).data["html"].keys() == {"group-state", "group-jobs"}


def test_the_bars_of_a_trend() -> None:
    assert bars([0] * 24) == []
    assert [(bar.x, bar.height) for bar in bars([0, 1, 1000])] == [(4, 1.5), (8, 24.0)]


@pytest.mark.long
def test_an_operator_retries_cancels_and_mutes_in_a_browser(
    group: int, visit: Visit, connection: Connection[Any], app: Treadle, queue: JobQueue
) -> None:
    page = visit.live("/errors")
    page.get_by_role("link", name="ValueError").click()
    page.get_by_text("Mute…").click()
    page.get_by_label("Until").select_option("version")
    page.get_by_role("button", name="Mute").click()
    page.get_by_text("until a new version fails").first.wait_for()
    page.get_by_role("button", name="Unmute").click()
    page.get_by_text("Unmuted.").wait_for()
    page.get_by_role("link", name="Retry failed jobs").click()
    page.get_by_role("button", name="Retry").click()
    page.get_by_text("Done: 3 changed.").wait_for()
    page.get_by_role("link", name="Back to the group").click()
    page.get_by_role("link", name="Cancel pending retries").click()
    page.get_by_role("button", name="Cancel jobs").click()
    page.get_by_text("Done: 4 changed.").wait_for()
    assert statuses(connection) == {"cancelled": 4}
    page.get_by_role("link", name="Back to the group").click()
    page.get_by_text("No job of this group is failed now.").wait_for()
    fail(queue, ["ValueError: order 8 <b>is</b> gone"])
    count_now(app)
    page.get_by_text("5 failed attempts").wait_for()
