"""Open pages under load: nothing moves under the pointer, and the reason of a job that waits is kept up to date."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import expect
from psycopg import Connection

from tests.support.browser import Visit
from tests.support.workers import count, until
from treadle import JobQueue
from treadle.web.dashboard.pages.live import details

# Of the layout shifts, those that a click or a key causes do not count.
OBSERVE = """() => {
    window.shifted = 0;
    window.moved = [];
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) {
            if (entry.hadRecentInput) continue;
            window.shifted += entry.value;
            for (const { node } of entry.sources ?? []) window.moved.push(node?.outerHTML?.slice(0, 100));
        }
    }).observe({ type: "layout-shift", buffered: true });
}"""
PAGES = ["/", "/jobs", "/jobs?status=pending", "/workers", "/limits", "/schedules", "/health"]
# Two updates: the fixture `dashboard` sends one every 0.4 seconds.
WATCHED_MS = 1000


@contextmanager
def load(url: str) -> Iterator[None]:
    """Jobs are enqueued, run, fail and end, all the time."""
    ended = threading.Event()

    def work() -> None:
        with JobQueue(url, "busy") as queue:
            for number in itertools.count():
                if ended.is_set():
                    return
                queue.enqueue_many("films" if number % 2 else "mail.send_newsletter", [{}] * 20)
                for nth, job in enumerate(queue.claim(["films", "mail.send_newsletter"], 15)):
                    queue.start(job)
                    queue.progress(job, nth * 7 % 100, stage=f"cutting reel {nth}")
                    if nth % 3 == 0:
                        queue.fail(job, "ValueError: no such film in the archive of the museum", final=True)
                    elif nth % 3 == 1:
                        queue.complete(job)
                ended.wait(0.2)  # two changes between the updates of a page

    working = threading.Thread(target=work)
    working.start()
    try:
        yield
    finally:
        ended.set()
        working.join()


@pytest.mark.long
@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_moves_on_open_pages_under_load(
    visit: Visit, url: str, connection: Connection[Any], width: int
) -> None:
    connection.execute("select register_worker('w', '1 hour', '{films}', null, 50)")
    connection.execute("select put_schedule('nightly', 'films', '0 3 * * *')")
    connection.execute("select set_limit('cinema', 500, p_job_type => 'films')")
    visit.page.set_viewport_size({"width": width, "height": 900})
    found: dict[str, Any] = {}
    with load(url):
        # A list that fills up for the first time does move what is below it.
        until(lambda: count(connection, "status = 'running'") > 25)
        for path in PAGES:
            page = visit.live(path)
            page.evaluate("document.fonts.ready")
            page.evaluate(OBSERVE)
            page.wait_for_timeout(WATCHED_MS)
            shifted, moved = page.evaluate("[window.shifted, window.moved.slice(0, 5)]")
            if shifted >= 0.05:
                found[path] = shifted, moved
    assert found == {}


def test_the_reason_of_a_waiting_job_is_refreshed(
    visit: Visit, queue: JobQueue, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(details, "REASON_SECONDS", 0.2)
    job = queue.enqueue("films")
    page = visit.live(f"/jobs/{job}")
    expect(page.locator("#why")).to_contain_text("There is no live worker")
    connection.execute("select register_worker('w', '1 hour', '{trailers}', null, 5)")
    expect(page.locator("#why")).to_contain_text("No live worker serves the job type films")
    connection.execute("select pause('films', null, 'ada', 'the projector is hot')")
    expect(page.locator("#why")).to_contain_text("the projector is hot")
    page.locator("#why").get_by_role("link", name="Resume").click()
    page.wait_for_url("**/resume?job_type=films")
