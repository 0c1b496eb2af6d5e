"""What open pages, new pages and treadle top say when the database does not answer, and after how many seconds.

The dashboard is a process with a server of its own. The target is 5 seconds; the tests allow more, for a busy machine,
but less than the 30 seconds that an application waits for an answer.
"""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psycopg
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.accessibility import violations
from tests.support.outages import FAULTS, PAGES, Scene, stopped_dashboard
from tests.support.screens import Terminal, terminal
from tests.support.server_folders import copied_folder
from treadle import JobQueue

MOST_SECONDS = 40.0
SHORT = ("down", "locked")
STALE = re.compile(r"Nothing new for \d+s\. What you see is from \d\d:\d\d:\d\d\.")


@pytest.fixture(scope="module")
def scene(initialized_server_folder: Path) -> Iterator[Scene]:
    """One for all tests: each of them waits until the pages work again."""
    with copied_folder(initialized_server_folder) as folder:
        scene = Scene(folder, folder.with_name("dashboard.log"))
        with JobQueue(scene.server.url) as queue:
            queue.enqueue("films")
        yield scene
        scene.close()


@pytest.fixture(scope="module")
def tabs(chromium: Browser, scene: Scene) -> Iterator[list[Page]]:
    with chromium.new_context(locale="en-GB") as context:
        tabs = [context.new_page() for _ in range(4)]
        for tab, path in zip(tabs, ("/", "/jobs", "/limits", "/health"), strict=True):
            tab.goto(scene.url + path)
            expect(tab.locator("#connection")).to_have_text("live")
        yield tabs


@pytest.fixture(scope="module")
def screen(scene: Scene) -> Iterator[Terminal]:
    with terminal("top", "--database-url", scene.proxy.url) as screen:
        yield screen
        screen.press("q")


@pytest.mark.parametrize(
    "fault", [*SHORT, *(pytest.param(each, marks=pytest.mark.long) for each in FAULTS if each not in SHORT)]
)
def test_every_surface_says_within_seconds_that_the_database_does_not_answer(
    scene: Scene, tabs: list[Page], screen: Terminal, fault: str
) -> None:
    screen.wait_for("films")
    with FAULTS[fault](scene):
        began = time.monotonic()
        # The doctor does not wait for locks, so the page Health works while a table is locked.
        affected = tabs[:3] if fault == "locked" else tabs
        for tab in affected:
            expect(tab.locator("#stale")).to_contain_text(re.compile(r"Nothing new for \d+s\. What you see is from"))
            expect(tab.locator("html")).to_have_class("stale")
            expect(tab.locator("#stale-reason")).to_contain_text("database")
        screen.wait_for("unavailable for")
        assert time.monotonic() - began < MOST_SECONDS
        with ThreadPoolExecutor(len(PAGES)) as visitors:
            answers = zip(PAGES, visitors.map(scene.get, PAGES), strict=True)
        for path, (status, seconds, text) in answers:
            assert seconds < 20, path
            if fault == "locked" and path == "/audit":
                continue  # it does not read the table of jobs
            assert (path, status) == (path, 503)
            assert "database" in text
    wait_until_live(tabs)


def wait_until_live(tabs: list[Page]) -> None:
    for tab in tabs:
        expect(tab.locator("#stale")).to_be_hidden()
        expect(tab.locator("#connection")).to_have_text("live")


@pytest.mark.long
def test_a_dashboard_that_stops_makes_its_pages_look_stale(scene: Scene, tabs: list[Page]) -> None:
    """An EventSource reports no error then."""
    with stopped_dashboard(scene):
        for tab in tabs:
            expect(tab.locator("#stale")).to_contain_text("No connection to the dashboard.")
            expect(tab.locator("#connection")).to_have_text("connection lost, reconnecting")
            expect(tab.locator("#age")).to_have_text(re.compile(r"updated \d+s ago"))
        assert violations(tabs[0]) == []
    tabs[0].reload()  # the check has removed some rows
    wait_until_live(tabs)


@pytest.mark.long
def test_an_error_page_loads_the_page_when_the_database_is_back(scene: Scene, chromium: Browser) -> None:
    with chromium.new_context(locale="en-GB") as context:
        tab = context.new_page()
        with FAULTS["down"](scene):
            tab.goto(scene.url + "/jobs")
            expect(tab.locator("h1")).to_have_text("Database unavailable")
            expect(tab.locator("[role=alert]").first).to_contain_text("database")
            expect(tab.locator("#retry")).to_contain_text("Tried again")
        expect(tab.locator("h1")).to_have_text("Jobs")


def test_a_change_does_not_wait_for_a_lock_and_is_not_made_later(scene: Scene) -> None:
    with httpx.Client(base_url=scene.url, headers={"accept": "text/html", "origin": scene.url}) as browser:
        page = browser.get("/pause?job_type=films")
        found = re.search(r'name="csrf_token" value="(\w+)"', page.text)
        assert found
        form = {"csrf_token": found[1], "job_type": "films"}
        with scene.server.connect() as other, other.transaction():
            other.execute("lock table treadle.pauses in access exclusive mode")
            answer = browser.post("/pauses", data=form, timeout=60)
            assert answer.status_code == 503
            assert "Nothing was changed" in answer.text
            assert "data-retry-after" not in answer.text
        with psycopg.connect(scene.server.url) as connection:
            assert connection.execute("select count(*) from treadle.pauses").fetchone() == (0,)
