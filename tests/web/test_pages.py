"""The rendered pages of the dashboard."""

import asyncio
import re
from typing import Any
from uuid import uuid4

import pytest
from psycopg import Connection

from tests.support.dashboards import OPERATOR, VIEWER, Browser, Site
from tests.support.error_groups import count_now, fail, groups
from tests.support.workers import until
from treadle import JobQueue, Retries, Treadle
from treadle.db.database import Database
from treadle.doctor.examine import aexamine
from treadle.doctor.finding import Finding
from treadle.web.dashboard import health as health_module
from treadle.web.dashboard.app import routes
from treadle.web.dashboard.health import HealthCheck
from treadle.web.dashboard.pages.formatting import lines

LOCKED = "A session has locked treadle.jobs"


@pytest.fixture
def viewer(site: Site) -> Browser:
    return site.signed_in(VIEWER)


def get(browser: Browser, path: str, status: int = 200) -> str:
    answer = browser.get(path)
    assert answer.status_code == status, answer.text
    return re.sub(r"\s+", " ", answer.text)


def test_pages_of_an_empty_queue_show_how_to_start(operator: Browser) -> None:
    overview = get(operator, "/")
    assert "treadle enqueue" in overview
    assert "treadle worker app:app" in overview
    assert "treadle enqueue" in get(operator, "/jobs")
    assert "treadle worker app:app" in get(operator, "/workers")
    assert "No changes yet." in get(operator, "/audit")


def test_every_page_has_a_unique_title(
    operator: Browser, app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    job = queue.enqueue("films", {})
    queue.enqueue("nightly", queue="nightly")
    connection.execute("select put_schedule('nightly', 'films', '0 3 * * *')")
    connection.execute("select set_limit('nightly', 3, p_job_type => 'films')")
    connection.execute("select register_worker('w', '1 hour', '{films}', null, 5)")
    fail(queue, ["ValueError: no"])
    count_now(app)
    group = next(iter(groups(app).values())).id
    ids = {True: str(group), False: str(job)}
    paths = [
        route.path.replace("{id}", ids[route.path.startswith("/errors")])
        for route in routes(app)
        if route.method == "GET"
    ]
    pages = [each for each in paths if not each.startswith(("/live", "/assets", "/api", "/login", "/metrics"))]
    answers = [get(operator, f"{each}?action=retry&name=nightly&worker=w") for each in pages]
    titles = {re.search("<title>(.*?)</title>", each)[1] for each in answers}  # type: ignore[index]
    assert len(titles) == len(pages) >= 8


def test_lanes_show_warnings(operator: Browser, queue: JobQueue) -> None:
    queue.enqueue_many("films", [{}] * 3)
    overview = get(operator, "/")
    assert "no worker" in overview
    operator.post("/pauses", {"job_type": "films", "reason": "the projector"})
    overview = get(operator, "/")
    assert "the projector" in overview
    assert "paused" in overview


@pytest.mark.parametrize("window", ["21600", "86400", "604800", "3", "x"])
def test_the_window_parameter_sets_the_range_of_the_charts(operator: Browser, window: str) -> None:
    """Invalid values mean one hour."""
    page = get(operator, f"/?window={window}")
    spans = {"21600": 73, "86400": 97, "604800": 85}.get(window, 61)
    assert len(re.findall('<th scope="row"><a href="[^"]*since=[^"]*"><time', page)) == spans


def test_charts_are_also_a_table_and_a_sentence(operator: Browser, connection: Connection[Any]) -> None:
    connection.execute(
        """insert into minutes (
            minute, queue, job_type, completed, failed, cancelled, errors, waited, waited_most, ran, ran_most
        ) values
        (date_trunc('minute', now()) - interval '5 minutes', 'default', 'films', 120, 3, 1, 8, 60, 2.5, 240, 9)"""
    )
    page = get(operator, "/")
    assert "120 jobs completed, at most 120 per minute." in page
    assert "3 jobs failed permanently; 5 failed attempts were retried." in page
    assert "The longest wait was 2.5s." in page
    numbers = ("120", "3", "5", "1", *["\u2013"] * 3, "2.5s")  # without a histogram, there are no percentiles
    assert "".join(f'<td class="number">{each}</td>' for each in numbers) in page


def test_the_page_of_a_job_shows_its_history(operator: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("films", {"title": "Metropolis", "api_key": "xyzzy"}, key="lang", retry=Retries(1))
    (job,) = queue.claim(["films"])
    queue.start(job)
    queue.event(job, "reel", number=1)
    connection.execute("insert into logs values (%s, 1, 1, 1, 1, now(), 30, 'films', 'dusty')", (job.id,))
    connection.execute("insert into steps values (%s, 1, 'cut', '{\"inches\": 12}', 1)", (job.id,))
    connection.execute("update jobs set checkpoint = '{\"at\": 41}'")
    queue.fail(job, "torn")
    page = get(operator, f"/jobs/{job.id}")
    for shown in ("Metropolis", "lang", "reel", "dusty", "cut", "inches", "torn", "enqueued", "&#34;at&#34;: 41"):
        assert shown in page
    assert "xyzzy" not in page


def test_viewers_see_no_payloads_and_no_buttons(viewer: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("films", {"title": "Metropolis"}, retry=Retries(1))
    (job,) = queue.claim(["films"])
    queue.start(job)
    connection.execute("insert into steps values (%s, 1, 'cut', '\"Metropolis\"', 1)", (job.id,))
    connection.execute("update jobs set checkpoint = '\"Metropolis\"'")
    queue.complete(job, "Metropolis")
    for path in ("/", "/jobs", f"/jobs/{job.id}", "/workers", "/audit", "/health"):
        page = get(viewer, path)
        assert "Metropolis" not in page
        assert re.findall(r'<form [^>]*action="([^"]*)"', page) in (
            ["/logout"],
            ["/logout", "/jobs", "/bulk"],
            ["/logout", "/audit"],
        )
        assert "Pause" not in page
    assert "Visible to operators only." in get(viewer, f"/jobs/{job.id}")


def test_viewers_cannot_search_in_payloads(viewer: Browser, queue: JobQueue) -> None:
    job = queue.enqueue("films", {"title": "Metropolis"})
    found = get(viewer, "/jobs?search=metropolis")
    assert str(job) not in found
    assert "payloads are visible to operators only" in found
    assert str(job) in get(viewer, f"/jobs?search={job.hex[-8:]}"), "by digits of the id"
    claimed = queue.claim(["films"])[0]
    queue.fail(claimed, "Out of paper", final=True)
    assert str(job) in get(viewer, "/jobs?search=out+of+paper"), "errors are for all roles"
    answer = viewer.send("GET", "/jobs?where=data.title+exists", headers={"accept": "text/html"})
    assert (answer.status_code, "viewers do not see payloads" in answer.text) == (403, True)


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ("pending", {"cancel", "delete", "priority", "edit", "copy"}),
        ("later", {"cancel", "delete", "priority", "run_now", "edit", "copy"}),
        ("running", {"cancel", "priority", "copy"}),
        ("completed", {"retry", "delete", "copy"}),
        ("cancelled", {"retry", "delete", "edit", "copy"}),
    ],
)
def test_a_job_has_buttons_for_the_possible_actions(
    operator: Browser, queue: JobQueue, status: str, shown: set[str]
) -> None:
    job_id = queue.enqueue("films", {}, delay="1h" if status == "later" else 0)
    if status in ("running", "completed"):
        (job,) = queue.claim(["films"])
        queue.start(job)
        if status == "completed":
            queue.complete(job)
    if status == "cancelled":
        queue.cancel(job_id)
    page = get(operator, f"/jobs/{job_id}")
    assert set(re.findall(rf'action="/jobs/{job_id}/(\w+)"', page)) == shown


def test_a_job_that_waits_for_its_key_is_blocked(operator: Browser, queue: JobQueue) -> None:
    first, second = (queue.enqueue("films", {}, key="lang") for _ in range(2))
    assert re.sub(r"\b(csrf|token)[^>]*>", "", get(operator, "/jobs?status=blocked")).count("held") == 0
    found = get(operator, "/jobs?status=blocked")
    assert "<title>Blocked jobs" in found
    assert '<a href="/jobs?status=blocked" aria-current="true">' in found
    assert f"/jobs/{second}" in found
    assert f"/jobs/{first}" not in found
    assert '<span class="status blocked"><span aria-hidden="true">◌</span> blocked</span>' in get(
        operator, f"/jobs/{second}"
    )


def test_notices_contain_no_text_from_the_url(operator: Browser) -> None:
    assert "Job retried." in get(operator, "/jobs?done=retry")
    assert "Cancel: 12 changed, 3 skipped." in get(operator, "/jobs?bulk=cancel&done=12&unfit=3")
    page = get(operator, "/jobs?done=You+have+won&bulk=<b>&unfit=<b>")
    assert "won" not in page
    assert "<b>" not in page


def test_a_missing_job_is_an_error_page(operator: Browser) -> None:
    assert "<h1>Not found</h1>" in get(operator, f"/jobs/{uuid4()}", 404)
    assert "<h1>Not found</h1>" in get(operator, "/jobs/nonsense", 404)


def test_invalid_parameters_are_an_error_page(operator: Browser) -> None:
    assert "Status must be one of pending" in get(operator, "/jobs?status=nonsense", 400)
    assert "After must be the cursor of a page" in get(operator, "/jobs?after=nonsense", 400)
    assert "Action must be one of" in get(operator, "/bulk?action=nonsense", 400)
    assert "Ids must be" in get(operator, "/bulk?action=retry&ids=nonsense", 400)


def test_the_confirmation_page_counts_jobs_and_changes_nothing(operator: Browser, queue: JobQueue) -> None:
    ids = [queue.enqueue("films", {"reel": n}) for n in range(3)]
    assert "Cancel 3 jobs<" in get(operator, "/bulk?action=cancel&all=1&type=films")
    assert "Cancel 1 job<" in get(operator, f"/bulk?action=cancel&ids={ids[0]}")
    assert "No jobs selected." in get(operator, "/bulk?action=cancel")
    assert "This applies to all jobs." in get(operator, "/bulk?action=cancel&all=1")
    assert {queue.get(each).status for each in ids} == {"pending"}


def test_the_confirmation_page_counts_only_jobs_that_can_be_changed(operator: Browser, queue: JobQueue) -> None:
    queue.enqueue_many("films", [{}] * 32)
    queue.complete_many(queue.claim(["films"], 30))
    cancel = get(operator, "/bulk?action=cancel&all=1&type=films")
    assert "Cancel 2 jobs<" in cancel
    assert 'data-total="2"' in cancel
    assert cancel.count("</a></li>") == 2
    assert "Delete 32 jobs<" in get(operator, "/bulk?action=delete&all=1&type=films")
    assert "Retry 0 jobs<" in get(operator, "/bulk?action=retry&all=1&type=films")
    assert "Retry 30 jobs<" in get(operator, "/bulk?action=retry&all=1&status=completed")


def test_the_confirmation_page_shows_a_lower_bound_if_there_are_too_many_to_count(
    operator: Browser, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.operations.bulk.COUNT_LIMIT", 0)
    queue.enqueue("films")
    page = get(operator, "/bulk?action=cancel&all=1&type=films")
    assert "Cancel at least 0 jobs<" in page
    assert 'data-total=""' in page
    assert page.count("</a></li>") == 1


def test_confirmation_and_change_refuse_a_status_with_the_same_message(operator: Browser) -> None:
    parameters = {"action": "cancel", "all": "1", "status": "completed"}
    confirmation = operator.send("GET", "/bulk", params=parameters)
    done = operator.post("/bulk", parameters, accept="application/json")
    assert confirmation.status_code == done.status_code == 400
    assert "to cancel jobs, their status must be one of" in confirmation.json()["error"]
    assert confirmation.json() == done.json()


def test_forms_accept_the_whole_range_of_priorities(operator: Browser, queue: JobQueue) -> None:
    job = queue.enqueue("films")
    for path in (f"/bulk?action=priority&ids={job}", f"/jobs/{job}"):
        least, most = re.search(r'min="(-\d+)" max="(\d+)"', get(operator, path)).groups()  # type: ignore[union-attr]
        for given in (least, most):
            operator.post(f"/jobs/{job}/priority", {"priority": given})
            assert queue.get(job).priority == int(given)


def test_the_audit_is_paginated(operator: Browser, connection: Connection[Any]) -> None:
    connection.execute("insert into audit (actor, action) select 'Ada ' || n, 'pause' from generate_series(1, 130) n")
    first = get(operator, "/audit")
    assert ("Ada 130<" in first, "Ada 81<" in first, "Ada 80<" in first) == (True, True, False)
    older = re.search(r'href="(/audit\?before=\d+)"', first)
    assert older
    assert "Ada 80<" in get(operator, older[1])
    assert "Ada 130<" in get(operator, "/audit?before=99999999999999999999999")


def test_health_is_cached(operator: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    examined = []

    async def examining(database: Database) -> list[Finding]:
        examined.append(database)
        return await aexamine(database)

    monkeypatch.setattr(health_module, "aexamine", examining)
    for _ in range(3):
        assert "checks" in get(operator, "/health")
    assert len(examined) == 1
    monkeypatch.setattr(health_module, "HEALTH_SECONDS", 0.0)
    get(operator, "/health")
    assert len(examined) == 2


@pytest.mark.parametrize(("took", "examinations"), [(0.1, 2), (0.2, 1)])
def test_an_examination_that_takes_long_is_repeated_half_as_often(
    app: Treadle, monkeypatch: pytest.MonkeyPatch, took: float, examinations: int
) -> None:
    examined = []

    async def examining(database: Database) -> list[Finding]:
        examined.append(database)
        return []

    async def body() -> None:
        check = HealthCheck(app)
        await check.report()
        check._took = took
        check._began -= 1.5 * health_module.HEALTH_SECONDS
        await check.report()
        await app.aclose()

    monkeypatch.setattr(health_module, "aexamine", examining)
    asyncio.run(body())
    assert len(examined) == examinations


def test_health_shows_a_locked_table_before_the_next_examination_is_due(
    operator: Browser, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in {"HEALTH_SECONDS": 600.0, "LONGEST_SECONDS": 600.0, "CHANGED_SECONDS": 0.0}.items():
        monkeypatch.setattr(health_module, name, seconds)
    assert LOCKED not in get(operator, "/health")
    with connection.transaction():
        connection.execute("lock table treadle.jobs in access exclusive mode")
        text = get(operator, "/jobs", 503)
        assert "<h1>A table is locked</h1>" in text
        assert "Another session has locked a table in the database: the Health page shows which one" in text
        until(lambda: LOCKED in get(operator, "/health"))
    until(lambda: LOCKED not in get(operator, "/health"))


def test_health_shows_a_stuck_worker_before_the_next_examination_is_due(
    operator: Browser, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in {"HEALTH_SECONDS": 600.0, "LONGEST_SECONDS": 600.0, "CHANGED_SECONDS": 0.0}.items():
        monkeypatch.setattr(health_module, name, seconds)
    connection.execute("select register_worker('w', '1 minute', '{films}', null, 4)")
    assert "its process was stopped" not in get(operator, "/health")
    connection.execute("update workers set stuck_since = now(), stuck_kind = 'stopped'")
    until(lambda: "its process was stopped" in get(operator, "/health"))
    connection.execute("update workers set stuck_since = null, stuck_kind = null")
    until(lambda: "its process was stopped" not in get(operator, "/health"))


def test_a_database_error_is_an_error_page(site: Site, app: Treadle, connection: Connection[Any]) -> None:
    browser = site.signed_in(OPERATOR)
    get(browser, "/")
    connection.execute("alter table treadle.meter rename to elsewhere")
    try:
        page = get(browser, "/", 503)
    finally:
        connection.execute("alter table treadle.elsewhere rename to meter")
    assert "<h1>Database unavailable</h1>" in page
    assert "data-retry-after" in page
    get(browser, "/")


def test_control_and_direction_characters_are_escaped() -> None:
    assert lines("a\n\tb") == "a\n\tb"
    assert lines("\u202egnp.exe\x00") == "\\u202egnp.exe\\u0000"
    assert lines("x" * 100_000).endswith("… and 40,000 more characters")
