"""Searches in a real browser: they continue by themselves, and can be stopped."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect
from psycopg import Connection

from tests.support.browser import Visit
from tests.web.test_search import MATCHES, scatter
from treadle import JobQueue
from treadle.db.queries import listing as listing_queries
from treadle.web.dashboard.pages import jobs as jobs_page


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing_queries, "EXAMINED_LIMIT", 300)


@pytest.mark.parametrize("query", ["search=ord-1999", "status=completed&where=data.order+%3D+%22ORD-1999%22"])
def test_a_search_finds_all_matches_by_itself(visit: Visit, connection: Connection[Any], query: str) -> None:
    scatter(connection, MATCHES * 20)
    page = visit.go(f"/jobs?{query}")
    rows = page.locator("table.jobs tbody tr")
    expect(page.locator("#search-progress")).to_contain_text(f"Searched all jobs. {MATCHES} found.")
    expect(rows).to_have_count(MATCHES)
    ids = rows.locator("input[name=ids]").evaluate_all("boxes => boxes.map(box => box.value)")
    assert len(set(ids)) == MATCHES
    expect(page.locator("#search-stop")).to_be_hidden()
    expect(page.locator("#search-announcement")).to_contain_text(f"{MATCHES} found")
    expect(page.get_by_role("link", name="Continue searching")).to_have_count(0)
    assert page.url.endswith(query), "the address is that of the search"


def test_the_list_appears_when_the_first_job_is_found(visit: Visit, connection: Connection[Any]) -> None:
    scatter(connection, 2000, 1)
    connection.execute("update jobs set data = jsonb_build_object('order', 'ORD-X')")
    connection.execute(
        """update jobs set data = '{"order": "ORD-1999"}' where id in (select id from jobs order by id limit 2)"""
    )
    page = visit.go("/jobs?search=ord-1999")
    rows = page.locator("table.jobs tbody tr")
    expect(rows).to_have_count(2)
    expect(page.locator(".empty")).to_have_count(0)
    page.get_by_label("Select this page").check()
    expect(page.get_by_text("2 selected")).to_be_visible()


def test_a_search_without_matches_says_so(visit: Visit, connection: Connection[Any]) -> None:
    scatter(connection, 2000)
    page = visit.go("/jobs?search=nowhere")
    expect(page.locator("#search-progress")).to_contain_text("Searched all jobs. 0 found.")
    expect(page.get_by_text("No matching jobs.")).to_be_visible()


def test_a_search_can_be_stopped_and_continued(
    visit: Visit, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing_queries, "EXAMINED_LIMIT", 4)
    scatter(connection, MATCHES * 20)
    connection.execute("vacuum analyze jobs")
    page = visit.go("/jobs?search=ord-1999")
    rows = page.locator("table.jobs tbody tr")
    expect(rows).not_to_have_count(0)
    expect(page.locator("#search-progress")).to_contain_text(
        re.compile(r"Searched [\d,]+ of about 2,220 jobs, back to")
    )
    # A press lasts for longer than a step of the search.
    page.get_by_role("button", name="Stop").hover()
    page.mouse.down()
    page.locator("#search-progress p").evaluate(
        """text => new Promise(changed => {
            new MutationObserver(changed).observe(text, { characterData: true, childList: true, subtree: true });
        })"""
    )
    page.mouse.up()
    expect(page.locator("#search-announcement")).to_contain_text("Stopped. Searched")
    expect(page.get_by_role("link", name="Continue searching")).to_be_focused()
    shown, text = rows.count(), page.locator("#search-progress p").inner_text()
    page.wait_for_timeout(400)
    assert (rows.count(), page.locator("#search-progress p").inner_text()) == (shown, text), "it has stopped"
    assert shown < MATCHES
    monkeypatch.setattr(listing_queries, "EXAMINED_LIMIT", 400)
    page.get_by_role("link", name="Continue searching").click()
    expect(rows).to_have_count(MATCHES)
    expect(page.locator("#search-progress")).to_contain_text(f"{MATCHES} found.")


def test_a_full_page_ends_a_search(visit: Visit, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_page, "MOST_FOUND", 60)
    scatter(connection, MATCHES * 20)
    page = visit.go("/jobs?search=ord-1999")
    rows = page.locator("table.jobs tbody tr")
    link = page.get_by_role("link", name="Continue searching")
    expect(link).to_be_visible()
    first = rows.count()
    assert 60 <= first < MATCHES
    link.click()
    page.wait_for_url("**/jobs?*after=*")
    expect(page.locator("#search-progress")).to_contain_text("Searched all jobs.")
    expect(rows).to_have_count(MATCHES - first)


def test_an_error_interrupts_a_search(visit: Visit, connection: Connection[Any]) -> None:
    scatter(connection, 2000)
    visit.page.route("**/jobs?*after=*", lambda route: route.fulfill(status=503, body="<main><p>Gone.</p></main>"))
    page = visit.go("/jobs?search=nowhere")
    expect(page.locator("#search-progress")).to_contain_text("The search was interrupted: Gone.")
    visit.page.unroute("**/jobs?*after=*")
    page.get_by_role("link", name="Continue searching").click()
    expect(page.locator("#search-progress")).to_contain_text("Searched all jobs.")
    visit.problems.clear()


def test_periods_and_suggestions(visit: Visit, queue: JobQueue) -> None:
    queue.enqueue("films", queue="slow")
    page = visit.go("/jobs")
    page.get_by_role("link", name="15 min").click()
    expect(page.locator("table.jobs tbody tr")).to_have_count(1)
    assert "since=15m" in page.url
    assert page.locator("input[name=type]").evaluate("input => [...input.list.options].map(each => each.value)") == [
        "films"
    ]
    page.get_by_label("until").fill("1h")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Since must be before until")).to_be_visible()
    visit.problems.clear()
