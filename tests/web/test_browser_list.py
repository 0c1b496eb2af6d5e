"""The list of jobs in a browser: rows change in place and never move."""

from typing import Any

from playwright.sync_api import Page, expect
from psycopg import Connection

from tests.support.browser import Visit
from treadle import JobQueue, Retries


def rows(page: Page) -> list[str]:
    found: list[str] = page.locator("table.jobs tbody tr").evaluate_all("rows => rows.map(row => row.id)")
    return found


def test_rows_change_in_place_and_new_jobs_wait_behind_a_button(visit: Visit, queue: JobQueue) -> None:
    queue.enqueue_many("films", [{"reel": n} for n in range(60)])
    page = visit.live("/jobs")
    before = rows(page)
    page.get_by_role("checkbox", name="Select films").nth(3).check()
    (job,) = queue.claim(["films"], 1)
    queue.start(job)
    older = page.locator(f"#row-{job.id}")
    assert older.count() == 0, "the oldest is claimed first, and is not on the first page"
    queue.enqueue_many("trailers", [{}] * 3, priority=500)
    expect(page.get_by_role("button", name="3 new jobs")).to_be_visible()
    assert rows(page) == before
    page.get_by_role("button", name="3 new jobs").click()
    expect(page.locator("table.jobs tbody tr").first).to_contain_text("trailers")
    expect(page.locator("#new-jobs")).to_be_hidden()
    expect(page.get_by_role("checkbox", name="Select films").nth(3)).to_be_checked()
    # A row that was on the page is updated where it is, even if it is no longer on the first page of the list.
    page.locator("#connection[data-state=live]").wait_for()
    before = rows(page)
    (trailer,) = queue.claim(["trailers"], 1)
    queue.start(trailer)
    queue.progress(trailer, 40, stage="cutting")
    queue.enqueue_many("films", [{}] * 60)
    expect(page.locator(f"#row-{trailer.id}")).to_contain_text("cutting")
    expect(page.locator(f"#row-{trailer.id} .status")).to_have_text("▶ running")
    expect(page.locator("#new-jobs")).to_have_text("50 or more new jobs")
    assert rows(page) == before


def test_a_deleted_job_stays_in_its_place(visit: Visit, queue: JobQueue, connection: Connection[Any]) -> None:
    job = queue.enqueue("films")
    page = visit.live("/jobs")
    connection.execute("delete from jobs")
    expect(page.locator(f"#row-{job}")).to_have_class("deleted")


def test_an_empty_list_says_that_there_is_something_now(visit: Visit, queue: JobQueue) -> None:
    page = visit.live("/jobs?status=failed")
    job = queue.enqueue("films", retry=Retries(0))
    queue.fail(queue.claim(["films"])[0], "no")
    page.get_by_role("button", name="1 new job").click()
    expect(page.locator(f"#row-{job}")).to_be_visible()
