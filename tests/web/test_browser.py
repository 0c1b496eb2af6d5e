"""The dashboard in a real browser."""

import re
from typing import Any
from uuid import UUID

import pytest
from playwright.sync_api import Page, Route, expect
from psycopg import Connection

from tests.support.browser import Visit
from tests.support.dashboard_fixtures import Theme
from tests.support.graphs import fan, insert_workflow
from tests.support.web import Server
from treadle import JobQueue, JobRow, Retries, Status
from treadle.web.dashboard import health
from treadle.web.dashboard.pages.live import details

THEMES: list[Theme] = ["light", "dark"]


def running(queue: JobQueue, **data: Any) -> JobRow:
    """A job that this test itself has claimed and started."""
    queue.enqueue("films", data, retry=Retries(1))
    (job,) = queue.claim(["films"])
    queue.start(job)
    return job


def failed(queue: JobQueue, connection: Connection[Any], error: str = "ValueError: no such film") -> UUID:
    job = queue.enqueue("films", {"title": "Metropolis"}, retry=Retries(0))
    queue.fail(queue.claim(["films"])[0], error)
    connection.execute("update errors set traceback = 'Traceback (most recent call last):\n  cut()\nValueError: no'")
    return job


def percent(page: Page) -> Any:
    return expect(page.locator("#job-state .percent"))


def test_progress_is_shown_live_until_the_job_completes(visit: Visit, queue: JobQueue) -> None:
    job = running(queue)
    page = visit.live(f"/jobs/{job.id}")
    backgrounds = set()
    for theme, done, stage in zip(THEMES, (10, 60), ("loading", "cutting"), strict=True):
        page.emulate_media(color_scheme=theme)
        backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        queue.progress(job, done, stage=stage)
        percent(page).to_have_text(f"{done}%")
        expect(page.locator("#job-state")).to_contain_text(stage)
        assert page.locator("#job-state progress").evaluate("bar => bar.value") == done
    assert len(backgrounds) == 2
    queue.event(job, "reel", number=3, api_key="abc")
    expect(page.locator("#events li")).to_have_count(1)
    expect(page.locator("#events")).to_contain_text("number=3 api_key=********")
    queue.complete(job, {"minutes": 153})
    expect(page.locator("#job-state .status")).to_have_text("✓ completed")
    percent(page).to_have_text("100%")
    expect(page.locator("#announcement")).to_have_text("The job is completed.")
    expect(page.locator("pre", has_text='"minutes": 153')).to_be_visible()
    # A finished job needs no live updates.
    expect(page.locator("#connection")).to_be_hidden()


def test_log_lines_are_appended_live(visit: Visit, queue: JobQueue, connection: Connection[Any]) -> None:
    job = running(queue)
    page = visit.live(f"/jobs/{job.id}")
    expect(page.get_by_text("No log lines yet.")).to_be_visible()
    for number in (1, 2):
        connection.execute(
            "insert into logs values (%s, %s, 1, 1, %s, now(), 40, 'films', %s)",
            (job.id, number, number, f"reel {number}\nis torn"),
        )
        expect(page.locator("#logs li")).to_have_count(number)
    expect(page.locator("#logs li").last).to_contain_text("reel 2\nis torn")
    expect(page.get_by_text("No log lines yet.")).to_be_hidden()


def test_a_log_line_is_appended_once(visit: Visit, queue: JobQueue, connection: Connection[Any]) -> None:
    """A page that was fetched again may have lines that the stream sends later."""
    job = running(queue)
    connection.execute("insert into logs values (%s, 1, 1, 1, 1, now(), 40, 'films', 'reel 1')", (job.id,))
    page = visit.live(f"/jobs/{job.id}")
    page.evaluate(
        """async () => {
            const { appendLines } = await import("/assets/merging.js");
            appendLines({ logs: document.querySelector("#logs").innerHTML + '<li data-number="2">reel 2</li>' });
        }"""
    )
    expect(page.locator("#logs li .message, #logs li:not(:has(.message))")).to_have_text(["reel 1", "reel 2"])


def test_a_failed_job_shows_its_traceback_and_can_be_retried(
    visit: Visit, queue: JobQueue, connection: Connection[Any]
) -> None:
    job = failed(queue, connection)
    for theme in THEMES:
        visit.page.emulate_media(color_scheme=theme)
        page = visit.go("/")
        page.get_by_role("link", name="Failed", exact=True).click()
        page.get_by_role("link", name="films").click()
        expect(page.get_by_text("Traceback (most recent call last)")).to_be_visible()
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".notice")).to_have_text("Job retried.")
    expect(page.locator("#job-state .status")).to_have_text("○ pending")
    expect(page.locator("#why")).to_contain_text("Why this job is not running")
    assert queue.get(job).status == Status.PENDING
    # The page of the retried job is live again.
    page.locator("#connection[data-state=live]").wait_for()
    queue.start(queue.claim(["films"])[0])
    expect(page.locator("#job-state .status")).to_have_text("▶ running")


def test_cancel_a_running_job(visit: Visit, queue: JobQueue) -> None:
    job = running(queue)
    page = visit.live(f"/jobs/{job.id}")
    page.get_by_text("Cancel…").click()
    page.get_by_label("Reason (for the audit)").locator("visible=true").fill("seen it")
    page.get_by_role("button", name="Cancel job").click()
    expect(page.locator("#job-state .status")).to_have_text("⊘ cancelled")
    expect(page.locator("#audit-title")).to_be_visible()
    assert (queue.get(job.id).status, queue.get(job.id).last_error) == (Status.CANCELLED, "seen it")


def test_pause_and_resume_a_type(visit: Visit, queue: JobQueue) -> None:
    queue.enqueue("films", {})
    page = visit.live("/")
    page.locator("#lanes").get_by_role("link", name="Pause films").click()
    page.get_by_label("Reason (for the audit)").fill("the projector is hot")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#pauses")).to_contain_text("the projector is hot")
    expect(page.locator("#lanes .badge.paused")).to_be_visible()
    assert queue.claim(["films"]) == []
    page.get_by_role("link", name="Resume…").click()
    expect(page.get_by_role("heading", name="Resume films")).to_be_visible()
    expect(page.locator("main")).to_contain_text("the projector is hot")
    assert queue.claim(["films"]) == []  # it asks first
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#pauses")).to_be_empty()
    assert len(queue.claim(["films"])) == 1


def test_resume_a_pause_that_arrived_with_a_live_update(
    visit: Visit, queue: JobQueue, connection: Connection[Any]
) -> None:
    page = visit.live("/")
    connection.execute("select pause('films', null, 'somebody else', 'why not')")
    page.get_by_role("link", name="Resume…").click()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".notice")).to_have_text("Resumed.")


def test_filter_and_paginate_jobs(visit: Visit, queue: JobQueue) -> None:
    queue.enqueue_many("films", [{"reel": n} for n in range(60)])
    queue.enqueue("trailers", {"title": "Metropolis"})
    page = visit.go("/jobs")
    rows = page.locator("table.jobs tbody tr")
    expect(rows).to_have_count(50)
    page.get_by_role("link", name="Next page").click()
    expect(rows).to_have_count(11)
    page.get_by_role("link", name="First page").click()
    page.get_by_label("Type").fill("trailers")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="Clear").click()
    expect(rows).to_have_count(50)
    visit.press("/")
    page.keyboard.type("metropolis")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(1)
    page.get_by_role("navigation", name="Status").get_by_role("link", name="failed").click()
    expect(page.get_by_text("No matching jobs.")).to_be_visible()
    assert "search=metropolis" in page.url


def test_bulk_changes_of_selected_and_of_all_matching_jobs(
    visit: Visit, queue: JobQueue, connection: Connection[Any]
) -> None:
    queue.enqueue_many("films", [{"reel": n} for n in range(1200)], retry=Retries(0))
    page = visit.go("/jobs?status=pending")
    page.get_by_role("checkbox", name="Select films").nth(0).check()
    page.get_by_role("checkbox", name="Select films").nth(1).check()
    expect(page.get_by_text("2 selected")).to_be_visible()
    page.get_by_role("button", name="Cancel…").click()
    expect(page.get_by_role("heading", name="Cancel 2 jobs")).to_be_visible()
    page.wait_for_load_state()  # without scripts, the form shows its result in another page
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#bulk-result")).to_have_text("Done: 2 changed.")
    expect(page.locator("#bulk")).to_be_hidden()
    page.get_by_role("link", name="Back to the list").click()
    page.goto(f"{page.url.split('?')[0]}?status=pending")
    page.get_by_label("Select all matching jobs on all pages").check()
    page.get_by_role("button", name="Change priority…").click()
    expect(page.get_by_role("heading", name="Change the priority of 1,198 jobs")).to_be_visible()
    page.wait_for_load_state()
    page.get_by_label("New priority").fill("300")
    page.get_by_role("button", name="Change priority").click()
    expect(page.locator("#bulk-result")).to_have_text("Done: 1,198 changed.")
    assert connection.execute("select count(*) from jobs where priority = 300").fetchone() == (1198,)


def test_boxes_that_were_checked_before_the_scripts_ran_are_counted(visit: Visit, queue: JobQueue) -> None:
    queue.enqueue("films")
    waiting: list[Route] = []
    visit.page.route("**/main.js", lambda route: waiting.append(route))  # noqa: PLW0108 - a builtin is refused
    page = visit.go("/jobs", until="commit")
    page.get_by_role("checkbox", name="Select films").check()
    while not waiting:
        page.wait_for_timeout(10)
    waiting[0].continue_()
    expect(page.get_by_text("1 selected")).to_be_visible()


def test_to_delete_all_matching_jobs_their_number_is_typed(visit: Visit, queue: JobQueue) -> None:
    queue.enqueue_many("films", [{}] * 12)
    page = visit.go("/bulk?action=delete&all=1&type=films")
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("#bulk")).to_be_visible()  # the browser asks for the number
    number = page.get_by_label("Type the number of jobs, 12, to confirm")
    number.fill("11")
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("#bulk")).to_be_visible()
    assert len(queue.list().jobs) == 12
    number.fill("12")
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("#bulk-result")).to_have_text("Done: 12 changed.")
    assert queue.list().jobs == []


def test_a_bulk_form_is_carried_out_once(visit: Visit, queue: JobQueue, connection: Connection[Any]) -> None:
    """A double click, the back button, and another request with the same form."""
    for _ in range(3):
        failed(queue, connection)
    page = visit.go("/bulk?action=retry&all=1&status=failed")
    fields = page.evaluate("new URLSearchParams(new FormData(document.querySelector('#bulk'))).toString()")
    page.get_by_role("button", name="Retry").dblclick()
    expect(page.locator("#bulk-result")).to_have_text("Done: 3 changed.")
    expect(page.locator("#bulk")).to_be_hidden()
    page.evaluate("document.querySelector('#bulk').requestSubmit()")
    for job in queue.claim(["films"]):
        queue.fail(job, "no", final=True)
    again = page.evaluate(
        """async fields => {
            const headers = {accept: "application/json", "content-type": "application/x-www-form-urlencoded"};
            const response = await fetch("/bulk", {method: "POST", body: fields, headers});
            return [response.status, (await response.json()).error];
        }""",
        fields,
    )
    assert again[0] == 409
    assert "already made" in again[1]
    visit.problems.clear()  # the browser reports the 409
    assert connection.execute("select count(*), count(distinct act) from audit").fetchone() == (3, 1)
    # A form that is opened again is another one.
    page.goto(f"{page.url.split('?')[0]}?action=retry&all=1&status=failed")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator("#bulk-result")).to_have_text("Done: 3 changed.")


def test_the_audit_has_one_line_for_a_bulk_change(visit: Visit, queue: JobQueue) -> None:
    queue.enqueue_many("films", [{}] * 30)
    page = visit.go("/bulk?action=cancel&all=1&type=films")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#bulk-result")).to_have_text("Done: 30 changed.")
    page.get_by_role("link", name="Audit").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_text("30 jobs").click()
    expect(page.locator("tbody details li")).to_have_count(21)
    page.get_by_role("link", name="All of them").click()
    expect(page.locator("tbody tr")).to_have_count(30)
    page.get_by_role("link", name="Back to the audit").click()
    page.get_by_label("What").select_option("retry")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("No matching changes.")).to_be_visible()


def test_the_health_page_refreshes_itself(
    visit: Visit, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "HEALTH_SECONDS", 0.3)
    page = visit.live("/health")
    expect(page.locator("#health")).to_contain_text("Examined")
    ill, critical = page.get_by_role("heading", name="No worker is running"), "Health: critical · Treadle"
    expect(page).not_to_have_title(critical)
    connection.execute("select register_worker('gone', '1 second', '{a}')")
    connection.execute("update workers set seen_at = now() - interval '1 hour'")
    expect(ill).to_be_visible()
    expect(page).to_have_title(critical)  # which is all that is seen of a tab in the background
    connection.execute("delete from workers")
    expect(ill).to_be_hidden()
    expect(page).not_to_have_title(critical)


def test_an_open_page_reconnects_after_a_server_restart(visit: Visit, dashboard: Server, queue: JobQueue) -> None:
    job = running(queue)
    page = visit.live(f"/jobs/{job.id}")
    dashboard.stop()
    expect(page.locator("#connection")).to_have_text("connection lost, reconnecting")
    queue.progress(job, 70, stage="cutting")
    dashboard.start()
    percent(page).to_have_text("70%")
    expect(page.locator("#connection")).to_have_text("live")
    # The browser reports the failed requests of the time in between.
    visit.problems.clear()


@pytest.mark.long
def test_an_open_page_reconnects_after_an_http_error(visit: Visit, queue: JobQueue) -> None:
    """EventSource gives up after an HTTP error, so the script reconnects."""
    job = running(queue)
    visit.page.route("**/live/jobs/**", lambda route: route.fulfill(status=503))
    page = visit.go(f"/jobs/{job.id}")
    expect(page.locator("#connection")).to_have_text("connection lost, reconnecting")
    visit.page.unroute("**/live/jobs/**")
    expect(page.locator("#connection")).to_have_text("live")
    visit.problems.clear()


def test_a_live_update_keeps_focus_and_input(visit: Visit, queue: JobQueue) -> None:
    """An open menu stays open as well."""
    job = running(queue)
    page = visit.live(f"/jobs/{job.id}")
    page.get_by_text("Priority…").click()
    page.get_by_label("New priority").fill("9")
    queue.fail(job, "torn")
    expect(page.locator("#job-state .status")).to_have_text("○ pending")
    expect(page.locator("#errors-title")).to_be_visible()
    expect(page.get_by_label("New priority")).to_be_focused()
    expect(page.get_by_label("New priority")).to_have_value("9")


def test_waiting_jobs_keep_their_order_while_their_numbers_change(visit: Visit, queue: JobQueue) -> None:
    queue.enqueue_many("films", [{}] * 3)
    queue.enqueue_many("music", [{}] * 2)
    queue.enqueue("zoo")
    page = visit.live("/")
    rows = page.locator("#lanes tbody tr")
    expect(rows.locator("th")).to_have_text(["films", "music", "zoo"])
    page.locator("#lanes tr", has_text="music").locator("a").first.focus()
    queue.enqueue_many("music", [{}] * 20)
    queue.enqueue_many("animals", [{}] * 50)
    queue.claim(["films"])
    expect(rows.locator("th")).to_have_text(["films", "music", "zoo", "animals"])
    expect(rows.locator("[data-label=Waiting]")).to_have_text(["0", "22", "1", "50"])
    assert page.evaluate("document.activeElement.textContent") == "music"
    page.reload()
    expect(rows.locator("th")).to_have_text(["animals", "music", "zoo", "films"])


def test_the_theme_is_saved(visit: Visit) -> None:
    page = visit.go("/")
    page.get_by_role("button", name="Switch between light and dark theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)
    page.reload()
    assert page.evaluate(colour) == dark
    page.get_by_role("button", name="Switch between light and dark theme").click()
    assert page.evaluate(colour) != dark


def test_times_are_relative_to_now(visit: Visit, queue: JobQueue) -> None:
    job = queue.enqueue("films", {}, delay="2h")
    page = visit.go(f"/jobs/{job}")
    expect(page.locator("#job-state time")).to_have_text("in 2 hr")
    assert page.locator("#job-state time").get_attribute("title")


def test_the_graph_of_a_workflow_is_updated_live(
    visit: Visit, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(details, "GRAPH_SECONDS", 0.2)
    workflow, ids = insert_workflow(connection, fan(7), status="running")
    connection.execute("update jobs set started_at = now() - interval '90 seconds' where id = any(%s)", [ids])
    page = visit.live(f"/jobs/{workflow}")
    node = page.locator(f"#node-{ids[0]}")
    expect(node).to_have_class("node state-running critical")
    expect(node.locator("[data-since]")).to_have_text(re.compile("1m 3[0-9]s"))
    colour = "node => getComputedStyle(node.querySelector('.outline')).fill"
    before = node.evaluate(colour)
    node.focus()
    connection.execute("update jobs set status = 'completed', finished_at = now() where id = %s", [ids[0]])
    expect(node).to_have_class("node state-completed critical")
    expect(node).to_be_focused()
    assert node.evaluate(colour) != before
    expect(page.locator(".graph-summary")).to_contain_text("1 completed")
    node.click()
    page.wait_for_url(f"**/jobs/{ids[0]}")
    expect(page.locator(".part-of a")).to_contain_text("a workflow")
