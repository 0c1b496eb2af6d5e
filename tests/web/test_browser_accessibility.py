"""Every page of the dashboard for every reader: on a phone, by keyboard, for a screen reader, with hostile data."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from psycopg import Connection

from tests.support.browser import Visit
from treadle import JobQueue

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>\u202e javascript:alert(3) {{7*7}} " + "x" * 300
PAGES = ["/", "/jobs", "/jobs?status=failed", "/job", "/workers", "/audit", "/health", "/pause?job_type=films"]
PAGES += ["/bulk?action=cancel&all=1"]


@pytest.fixture
def full(queue: JobQueue, connection: Connection[Any]) -> str:
    """A queue with something in every part of every page; the path of a job that failed once and runs."""
    queue.enqueue("later", {}, delay="1h")
    queue.enqueue(HOSTILE[:50], {HOSTILE: HOSTILE}, key=HOSTILE[:100])
    queue.enqueue("broken", {}, max_attempts=1)
    queue.fail(queue.claim(["broken"])[0], HOSTILE)
    queue.enqueue("films", {HOSTILE: HOSTILE}, max_attempts=3)
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
    connection.execute("select heartbeat(%s)", (HOSTILE[:100],))
    connection.execute(
        """insert into minutes
        select date_trunc('minute', now()) - n * interval '1 minute', 'default', 'films', n, n % 3, 0, n % 5, n, 2, n, 9
        from generate_series(1, 50) n"""
    )
    return f"/jobs/{job.id}"


def opened(visit: Visit, full: str, path: str) -> Page:
    page = visit.go(full if path == "/job" else path)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true;")
    return page


def test_every_page_is_accessible(visit: Visit, full: str) -> None:
    """As far as a program can tell: names, roles, order of headings, contrast."""
    broken = {}
    for path in PAGES:
        visit.page.emulate_media(color_scheme="light")
        page = opened(visit, full, path)
        found = Axe().run(page).response["violations"]
        # Of the other theme only the colours are others.
        page.emulate_media(color_scheme="dark")
        found += Axe().run(page, options={"runOnly": ["color-contrast"]}).response["violations"]
        if found:
            broken[path] = [(each["id"], [node["html"][:150] for node in each["nodes"][:3]]) for each in found]
    assert broken == {}


def test_no_page_scrolls_sideways(visit: Visit, full: str) -> None:
    wide = {}
    for path in PAGES:
        page = opened(visit, full, path)
        for width in (768, 360):
            page.set_viewport_size({"width": width, "height": 700})
            wide[path, width] = page.evaluate("document.documentElement.scrollWidth")
    assert {place: found for place, found in wide.items() if found != place[1]} == {}


def test_hostile_text_is_shown_and_nothing_of_it_is_done(visit: Visit, full: str) -> None:
    """No dialog, no request that its markup would make, nothing refused by the policy: see Visit."""
    for path in PAGES:
        page = opened(visit, full, path)
        assert page.locator("main script, main img").count() == 0
        assert page.locator('a[href^="javascript"]').count() == 0
    # It also comes with the news.
    page = visit.live(full)
    expect(page.locator("#now")).to_contain_text("<script>alert(1)</script>")
    assert page.evaluate("document.querySelector('main script') === null")


def test_a_keyboard_is_enough(visit: Visit, full: str) -> None:
    page = visit.go("/jobs")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator("table.jobs tbody th a").first).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/*-*")


def test_a_page_works_without_its_script(visit: Visit, full: str, queue: JobQueue) -> None:
    visit.page.route("**/live.js", lambda route: route.fulfill(body=""))
    page = visit.go(full)
    expect(page.locator("#now .status")).to_have_text("▶ running")
    page.get_by_text("Cancel…").click()
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.locator(".notice")).to_have_text("Done (cancel).")
    page.goto(page.url.partition("/jobs")[0] + "/jobs?status=cancelled")
    page.get_by_role("checkbox", name="Choose films").check()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete").click()
    expect(page.locator(".notice")).to_have_text("1 changed (delete).")
