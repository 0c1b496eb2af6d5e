"""The dashboard with the keyboard: shortcuts, the command palette, and commands to copy."""

import re
from typing import Any

from playwright.sync_api import expect
from psycopg import Connection

from tests.support.accessibility import violations
from tests.support.browser import Visit
from tests.support.workers import until
from treadle import JobQueue

PAGES = {"j": "Jobs", "s": "Schedules", "l": "Limits", "w": "Workers", "a": "Audit", "h": "Health", "o": "Overview"}


def test_the_shortcuts_are_listed_and_lead_to_the_pages(visit: Visit, queue: JobQueue) -> None:
    queue.enqueue("films")
    page = visit.go("/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    for key, name in PAGES.items():
        visit.press("g", key)
        expect(page.locator("nav [aria-current=page]")).to_have_text(name)
    visit.press("/")
    page.wait_for_url("**/jobs#search")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("g?jx")  # text in a field is not a shortcut
    expect(page.locator("#search")).to_have_value("g?jx")


def test_rows_are_moved_through_selected_and_opened(visit: Visit, queue: JobQueue) -> None:
    queue.enqueue_many("films", [{}] * 3)
    page = visit.go("/jobs")
    links = page.locator("table.jobs tbody th a")
    page.keyboard.press("j")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("x")
    expect(page.get_by_text("1 selected")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_text("2 selected")).to_be_visible()
    page.keyboard.press("k")
    page.keyboard.press("x")
    expect(page.get_by_text("1 selected")).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/*-*")


def test_the_palette_finds_pages_types_queues_and_jobs(visit: Visit, queue: JobQueue) -> None:
    job = queue.enqueue("mail.send", queue="slow")
    page = visit.go("/")
    palette, field = page.get_by_role("dialog", name="Go to"), page.locator("#palette-input")

    def choose(text: str, option: str) -> None:
        visit.press("Control+k")
        field.fill(text)
        expect(palette.get_by_role("option", name=option).first).to_be_visible()
        while option not in (page.locator("#palette-options [aria-selected=true]").text_content() or ""):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")

    page.keyboard.press("Control+k")
    expect(palette.get_by_role("option", name="mail.send Type")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(palette).to_be_hidden()
    choose("sched", "Schedules")
    page.wait_for_url("**/schedules")
    choose("mail", "mail.send: failed jobs")
    page.wait_for_url("**/jobs?type=mail.send&status=failed")
    choose("slow", "Pause queue slow")
    expect(page.locator("input[name=queue]")).to_have_value("slow")
    choose(str(job), str(job))
    page.wait_for_url(f"**/jobs/{job}")
    choose(str(job)[-8:], str(job)[-8:])
    expect(page.locator("table.jobs tbody tr")).to_have_count(1)
    choose("shortcuts", "Keyboard shortcuts")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()


def test_the_palette_works_while_the_server_has_no_names(visit: Visit) -> None:
    visit.page.route("**/api/names*", lambda route: route.fulfill(status=503, body="{}"))
    page = visit.go("/")
    page.keyboard.press("Control+k")
    page.locator("#palette-input").fill("limits")
    page.keyboard.press("Enter")
    page.wait_for_url("**/limits")
    visit.problems.clear()


def test_commands_are_copied(visit: Visit, queue: JobQueue, connection: Connection[Any]) -> None:
    job = queue.enqueue("films", {"title": "it's"})
    visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit.go(f"/jobs/{job}")

    def copied(name: str) -> str:
        page.locator("#menu-copy summary").click()
        page.locator("#menu-copy").get_by_role("button", name=name).click()
        page.locator("#copied", has_text="Copied.").wait_for(state="attached")
        page.keyboard.press("Escape")
        text = page.evaluate("navigator.clipboard.readText()")
        assert isinstance(text, str)
        return text

    assert copied("Copy SQL") == f"select * from treadle.jobs where id = '{job}';"
    command = copied("Copy curl")
    origin = re.match("https?://[^/]+", page.url)
    assert origin
    assert command.endswith(f'"{origin[0]}/api/jobs/{job}"')
    assert copied("Copy Command line") == f"treadle show {job}"
    page = visit.go("/jobs?status=pending&type=films")
    assert copied("Copy link") == page.url
    assert copied("Copy Command line") == "treadle jobs --status pending --type films"
    rows = connection.execute(copied("Copy SQL").encode()).fetchall()
    assert [row[0] for row in rows] == [job]


def test_a_button_that_copies_gets_its_label_back(visit: Visit, queue: JobQueue) -> None:
    visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit.go(f"/jobs/{queue.enqueue('films')}")
    page.locator("#menu-copy summary").click()
    button = page.locator("#menu-copy [data-copy]").first
    label = button.inner_html()
    for _ in range(2):  # the second time while it still says so
        button.click()
        page.locator("#menu-copy button", has_text="Copied").wait_for()
    until(lambda: button.inner_html() == label)
    assert page.locator("#copied").text_content() == ""
