"""The pages of types and queues in a real browser: charts lead to jobs, numbers change, nothing moves."""

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect
from psycopg import Connection

from tests.support.browser import Visit
from treadle import JobQueue, Treadle

SHIFTS = """() => new Promise((done) => {
  let sum = 0;
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) if (!each.hadRecentInput) sum += each.value;
  }).observe({ type: "layout-shift", buffered: true });
  setTimeout(() => done(sum), 900);
})"""


def add_spike(connection: Connection[Any]) -> None:
    connection.execute(
        """insert into minutes (minute, queue, job_type, completed, failed, errors)
        select date_trunc('minute', now()) - n * interval '1 minute', 'default', 'films', 10, 3, 3
        from generate_series(1, 59) n"""
    )


def leads_to(page: Page) -> tuple[dict[str, str], timedelta]:
    """The filter of the list of jobs, and how long its time range is."""
    page.wait_for_url("**/jobs?*")
    given = {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}
    since, until = datetime.fromisoformat(given.pop("since")), datetime.fromisoformat(given.pop("until"))
    return given, until - since


def test_a_click_on_a_chart_shows_the_jobs_of_that_time(visit: Visit, connection: Connection[Any]) -> None:
    add_spike(connection)
    page = visit.go("/type?name=films")
    chart = page.locator(".chart.failures svg")
    begin = datetime.fromisoformat(chart.get_attribute("data-begin") or "")
    box = chart.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 10.5 / 61, box["y"] + 50)
    page.wait_for_url("**/jobs?*")
    since = datetime.fromisoformat(parse_qs(urlsplit(page.url).query)["since"][0])
    assert since - begin == timedelta(minutes=10)
    assert leads_to(page) == ({"type": "films", "status": "failed"}, timedelta(minutes=1))


def test_dragging_over_a_chart_shows_the_jobs_of_the_range(visit: Visit, connection: Connection[Any]) -> None:
    add_spike(connection)
    page = visit.go("/queue?name=default")
    box = page.locator(".chart.throughput svg").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 20.5 / 61, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 10.5 / 61, box["y"] + 60, steps=4)
    assert float(page.locator(".chart.throughput .cursor").get_attribute("width") or 0) > 15
    page.mouse.up()
    assert leads_to(page) == ({"queue": "default", "status": "completed"}, timedelta(minutes=11))


def test_a_drag_that_ends_elsewhere_does_nothing(visit: Visit, connection: Connection[Any]) -> None:
    add_spike(connection)
    page = visit.go("/type?name=films")
    box = page.locator(".chart.throughput svg").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 50, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 90, box["y"] + 400, steps=2)
    page.mouse.up()
    expect(page.locator("h1")).to_have_text("films")


def test_without_scripts_the_table_leads_to_the_jobs(visit: Visit, connection: Connection[Any]) -> None:
    add_spike(connection)
    page = visit.go("/type?name=films")
    page.locator("#chart-data > summary").click()
    page.locator("#chart-data tbody a").nth(10).click()
    assert leads_to(page) == ({"type": "films"}, timedelta(minutes=1))


def test_numbers_of_a_type_change_live(visit: Visit, queue: JobQueue) -> None:
    queue.enqueue("films")
    page = visit.live("/type?name=films")
    waiting = page.locator("#place-tiles dd").first
    expect(waiting).to_have_text("1")
    queue.enqueue_many("films", [{}] * 6)
    expect(waiting).to_have_text("7")
    listed = visit.live("/queues")
    expect(listed.locator("#places tbody td.number").first).to_have_text("7")
    queue.enqueue_many("films", [{}] * 5)
    expect(listed.locator("#places tbody td.number").first).to_have_text("12")


def test_the_overview_shows_what_runs_in_which_slot(
    visit: Visit, app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    connection.execute("select register_worker('w', '1 hour', '{films}', null, 3)")
    page = visit.live("/")
    expect(page.locator("#verdict .sentence").first).to_have_text("All is well.")
    expect(page.locator(".slot.free")).to_have_count(3)
    client = JobQueue(app.database, "w")
    queue.enqueue_many("films", [{}] * 5)
    jobs = client.claim(["films"], 5)
    client.start(jobs[0])
    expect(page.locator(".slot.running")).to_have_count(1)
    expect(page.locator(".slot.claimed")).to_have_count(2)
    expect(page.locator(".slot-summary")).to_have_text("1 running, 2 starting, 0 free, 2 prefetched")
    expect(page.locator(".slot.running")).to_contain_text("films")
    page.locator(".slot.running").click()
    page.wait_for_url(f"**/jobs/{jobs[0].id}")


@pytest.mark.long
def test_pages_do_not_move_while_they_load(visit: Visit, queue: JobQueue, connection: Connection[Any]) -> None:
    add_spike(connection)
    queue.enqueue_many("films", [{}] * 5)
    connection.execute("select pause('other', null, 'Ada')")
    connection.execute("select register_worker('w', '1 hour', '{films}', null, 3)")
    for width in (1440, 390):
        visit.page.set_viewport_size({"width": width, "height": 900})
        for path in ("/", "/type?name=films", "/queues", "/workflows"):
            assert visit.live(path).evaluate(SHIFTS) < 0.05, (path, width)
