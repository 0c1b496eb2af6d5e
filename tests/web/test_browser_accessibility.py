"""Every page of the dashboard with a screen reader, a keyboard, a phone, and hostile data."""

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect
from psycopg import Connection

from tests.queue.test_limits import claim, limit, take_turns
from tests.support.accessibility import violations
from tests.support.browser import Visit
from tests.support.graphs import fan, insert_workflow
from treadle import JobQueue, Retries

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>\u202e javascript:alert(3) {{7*7}} " + "x" * 300
PAGES = ["/", "/jobs", "/jobs?status=failed", "/job", "/workers", "/audit", "/health", "/pause?job_type=films"]
PAGES += ["/resume?job_type=films&queue=default", "/bulk?action=delete&all=1", "/selected", "/act"]
PAGES += ["/jobs?search=x&since=1d&where=data.x+%3D+1"]
PAGES += ["/bulk?action=cancel&all=1", "/schedules", "/schedule?name=nightly", "/schedules/run?name=nightly"]
PAGES += [
    "/limits",
    "/limits?search=mail",
    "/limit?name=tenants",
    "/limits/set?name=rate",
    "/limits/reset?name=tenants",
]
PAGES += ["/errors", "/errors?type=b", "/errors/1", "/errors/1/retry"]
PAGES += ["/workers/concurrency?worker=w", "/workflow", "/large workflow", "/member"]
PLACES = ["/types", "/queues", "/type?name=films", f"/type?{urlencode({'name': HOSTILE[:50]})}", "/queue?name=default"]
PLACES += ["/workflows", "/workflows?state=running"]
SHORT = ["/", "/jobs", "/job", "/workflow", "/limits", "/errors/1"]

# A workflow as it is enqueued. The others are inserted, and the list does not know them.
LISTED = f"listed {HOSTILE}"[:200]
ONE_STEP = json.dumps([{"job_type": "step", "data": ["{}"], "part": 0}])


@pytest.fixture
def full(queue: JobQueue, connection: Connection[Any]) -> str:
    """Fills every part of every page; returns the path of a running job that has failed once."""
    _add_workflows(connection)
    queue.enqueue("later", {}, delay="1h")
    queue.enqueue(HOSTILE[:50], {HOSTILE: HOSTILE}, key=HOSTILE[:100])
    queue.enqueue("broken", {}, retry=Retries(0))
    queue.fail(queue.claim(["broken"])[0], HOSTILE)
    queue.enqueue("films", {HOSTILE: HOSTILE}, retry=Retries(2))
    for _ in range(2):
        (job,) = queue.claim(["films"])
        queue.start(job)
        queue.progress(job, 40, stage=HOSTILE[:100])
        queue.event(job, HOSTILE[:50], text=HOSTILE)
        if job.attempts == 1:
            queue.fail(job, HOSTILE)
            connection.execute("update errors set traceback = %s", (f"Traceback\n{HOSTILE}",))
            connection.execute("update jobs set run_at = clock_timestamp() where job_type = 'films'")
    connection.execute("insert into logs values (%s, 1, 1, 1, 1, now(), 40, %s, %s)", (job.id, HOSTILE, HOSTILE))
    connection.execute("insert into steps values (%s, 1, %s, to_jsonb(%s::text), 1)", (job.id, HOSTILE[:50], HOSTILE))
    connection.execute("select pause(%s, null, %s, %s)", (HOSTILE[:50], HOSTILE[:100], HOSTILE))
    connection.execute("select pause('films', 'default', 'Ada', 'why not')")
    connection.execute("select operate('priority', array(select id from jobs), %s, %s, 7)", (HOSTILE[:100], HOSTILE))
    connection.execute("select heartbeat(%s)", (HOSTILE[:100],))
    connection.execute("select register_worker('w', '1 hour', '{films}', null, 50), set_concurrency('w', 5)")
    connection.execute(
        "select report_stuck('w', 'blocked', 5, %s, %s)", [job.id, f'  File "a.py", line 7, in a\n{HOSTILE}']
    )
    connection.execute("select register_worker('gone', '1 hour', '{films}'), recover_worker('gone', %s)", [HOSTILE])
    connection.execute(
        """insert into minutes (
            minute, queue, job_type, completed, failed, cancelled, errors, waited, waited_most, ran, ran_most
        )
        select date_trunc('minute', now()) - n * interval '1 minute', 'default', 'films', n, n % 3, 0, n % 5, n, 2, n, 9
        from generate_series(1, 50) n"""
    )
    for name in ("nightly", HOSTILE[:100]):
        connection.execute("select put_schedule(%s, %s, %s)", (name, HOSTILE[:50], HOSTILE))
        connection.execute("select operate_schedule('run', %s)", (name,))
        for nth, status in enumerate(("completed", "failed", "cancelled", "running", "pending", "missed", "overlap")):
            connection.execute(
                """with made as (
                    insert into jobs (job_type, status) select 'scheduled', %(status)s where %(is_job)s returning id
                )
                insert into occurrences (schedule, scheduled_for, job_id, skipped)
                select
                    %(name)s, now() - %(nth)s * interval '1 hour', (select id from made),
                    case when not %(is_job)s then %(status)s end""",
                {"name": name, "nth": nth, "status": status, "is_job": nth < 5},
            )
    connection.execute("update schedules set error = %s, last_at = now(), next_at = now()", (HOSTILE,))
    _add_limits(connection)
    connection.execute("insert into worker_versions values (%s, '2000-01-01', %s)", [queue.worker_id, HOSTILE[:100]])
    connection.execute("select group_errors('0', p_pause => '0')")
    connection.execute("select mute_errors(1, p_actor => %s, p_reason => %s)", [HOSTILE[:100], HOSTILE])
    return f"/jobs/{job.id}"


def _add_limits(connection: Connection[Any]) -> None:
    for tenant in ("acme", HOSTILE[:150], ""):
        data = json.dumps({"tenant": tenant} if tenant else {})
        connection.execute("select enqueue_jobs('limited', %s)", ([data] * 3,))
    limit(connection, 2, per="tenant", name="tenants", job_types=["limited"])
    limit(connection, 100, name="limited", job_types=["limited", HOSTILE[:50]])
    limit(connection, 6, 60.0, name="rate", burst=1000, job_types=["limited"])
    take_turns(connection, job_type="limited")
    limit(connection, 3, name=HOSTILE[:100], per=HOSTILE[:50], job_types=["other"])
    claim(connection, types="{limited}")
    claim(connection, types="{limited}")
    for key, amount in ((HOSTILE[:200], 7), ("paused", 0), ("acme", 2)):
        connection.execute("select set_limit('tenants', %s, p_key => %s, p_actor => %s)", (amount, key, HOSTILE))
    connection.execute("select set_limit('tenants', 3, p_actor => %s)", (HOSTILE,))
    connection.execute("select set_limit('limited fair', 5, p_key => 'acme')")


def _add_workflows(connection: Connection[Any]) -> None:
    """One with jobs in every state, a block of cells and one of squares, and one that is summarised."""
    connection.execute("select enqueue_workflow(%s, %s)", [LISTED, ONE_STEP])
    after = [*fan(10), (11,), *([(12,)] * 70), tuple(range(13, 83))]
    _, small = insert_workflow(connection, after, [HOSTILE[:100]] * len(after), [HOSTILE[:50]] * len(after))
    states = ["pending", "claimed", "running", "failed", "cancelled"]
    for ids in (small, insert_workflow(connection, fan(700), title=HOSTILE[:100])[1]):
        for nth, status in enumerate(states):
            connection.execute("update jobs set status = %s, finished_at = null where id = %s", [status, ids[nth + 1]])
        connection.execute("update jobs set status = 'pending', holds = 2 where id = %s", [ids[-1]])
        connection.execute("delete from jobs where id = %s", [ids[7]])


def opened(visit: Visit, full: str, connection: Connection[Any], path: str) -> Page:
    if path in ("/workflow", "/large workflow"):
        order = "" if path == "/workflow" else "desc"
        row = connection.execute(
            f"select id from jobs where job_type = 'workflow' and data ->> 'name' <> %s order by id {order}", [LISTED]
        ).fetchone()
    elif path == "/selected":
        ids = [each for (each,) in connection.execute("select id from jobs order by id limit 25").fetchall()]
        return visit.go(f"/bulk?action=delete&ids={'&ids='.join(map(str, ids))}")
    elif path == "/act":
        act = connection.execute("select act from audit where act is not null limit 1").fetchone()
        assert act
        return visit.go(f"/audit?act={act[0]}")
    elif path == "/member":
        row = connection.execute("select max(after_id::text) from dependencies where needs <> 'member'").fetchone()
    else:
        row = None
    page = visit.go(full if path == "/job" else f"/jobs/{row[0]}" if row else path)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true;")
    return page


@pytest.mark.parametrize(
    "paths",
    [SHORT, *(pytest.param(each, marks=pytest.mark.long) for each in (PAGES[::2], PAGES[1::2], PLACES))],
    ids=["short", "some", "others", "places"],
)
def test_every_page_is_accessible_fits_every_width_and_shows_hostile_text_as_text(
    visit: Visit, full: str, connection: Connection[Any], paths: list[str]
) -> None:
    """Accessible as far as axe can check it: names, roles, order of headings, contrast. Hostile text opens no dialog,
    loads nothing and violates no policy: `Visit` checks that."""
    found, widths = {}, {}
    for path in paths:
        visit.page.set_viewport_size({"width": 1440, "height": 900})
        page = opened(visit, full, connection, path)
        assert page.locator("main script, main img").count() == 0
        assert page.locator('a[href^="javascript"]').count() == 0
        for width in (768, 360):
            page.set_viewport_size({"width": width, "height": 700})
            widths[path, width] = page.evaluate("document.documentElement.scrollWidth")
        page.set_viewport_size({"width": 1440, "height": 900})
        found[path] = violations(page)
    assert {path: each for path, each in found.items() if each} == {}
    assert {place: width for place, width in widths.items() if width != place[1]} == {}


@pytest.mark.long
def test_live_pages_are_accessible_on_a_phone(visit: Visit, full: str) -> None:
    """Other parts are visible there."""
    visit.page.set_viewport_size({"width": 390, "height": 844})
    found = {path: violations(visit.live(path)) for path in ("/", "/jobs", full)}
    assert {path: each for path, each in found.items() if each} == {}


def test_hostile_text_in_live_updates_is_shown_as_text(visit: Visit, full: str) -> None:
    page = visit.live(full)
    expect(page.locator("#job-state")).to_contain_text("<script>alert(1)</script>")
    assert page.evaluate("document.querySelector('main script') === null")


def test_the_job_list_works_with_the_keyboard(visit: Visit, full: str) -> None:
    page = visit.go("/jobs")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator("table.jobs tbody th a").first).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/*-*")


def test_pages_work_without_javascript(visit: Visit, full: str, queue: JobQueue) -> None:
    visit.page.route("**/main.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
    page = visit.go(full)
    expect(page.locator("#job-state .status")).to_have_text("▶ running")
    page.get_by_text("Cancel…").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(page.locator(".notice")).to_have_text("Job cancelled.")
    page.goto(page.url.partition("/jobs")[0] + "/jobs?status=cancelled")
    page.get_by_role("checkbox", name="Select films").check()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete").click()
    expect(page.locator(".notice")).to_have_text("Delete: 1 changed.")
