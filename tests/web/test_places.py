"""The pages of job types, queues and workflows, the verdict, and what the API says about them."""

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from psycopg import Connection

from tests.db.test_workflow_list import enqueue as enqueue_workflow
from tests.operations.test_throughput import add_minutes
from tests.support.dashboards import OPERATOR, VIEWER, Browser, Site
from tests.support.workers import until
from treadle import JobQueue, Retries, Treadle
from treadle.db.queries.dashboard import ClaimedJob
from treadle.operations.slots import SlotMap, WorkerSlots
from treadle.web.dashboard.pages import slots as drawing
from treadle.web.dashboard.pages.charts import panel
from treadle.web.dashboard.pages.settings_of import settings_of
from treadle.web.dashboard.pages.slots import draw_slots
from treadle.words.overview import Mark, Span, WorkerRow


def get(browser: Browser, path: str) -> str:
    answer = browser.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


def api(browser: Browser, path: str, status: int = 200) -> Any:
    answer = browser.get(f"/api{path}", accept="application/json")
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.fixture
def viewer(site: Site) -> Browser:
    return site.program(VIEWER)


def test_lists_lead_to_pages_with_any_name(operator: Browser, queue: JobQueue) -> None:
    queue.enqueue("a/b c&ü?", queue="mail/eu #1")
    for kind, name in (("type", "a/b c&ü?"), ("queue", "mail/eu #1")):
        listed = get(operator, f"/{kind}s")
        assert f"/{kind}?name={quote(name, safe='').replace('%20', '+')}" in listed
        one = get(operator, f"/{kind}?name={quote(name, safe='')}")
        assert f"<h1>{name.replace('&', '&amp;')}</h1>" in one
        assert "Pause…" in one
    assert "No job type has “films”" in get(operator, "/types?search=films")
    assert operator.get("/type").status_code == 400
    assert operator.get(f"/queue?name={'x' * 51}").status_code == 400


def test_a_page_of_an_unknown_name_says_so(operator: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    """It would look healthy and quiet."""
    queue.enqueue("films")
    for path in ("/type?name=filmz", "/queue?name=filmz", "/api/type?name=filmz", "/api/queue?name=filmz"):
        answer = operator.get(path)
        assert answer.status_code == 404, path
        assert "there is no" in answer.text.lower()
    assert "did you mean" in operator.get("/type?name=filmz").text
    # Without jobs, but with something else.
    connection.execute("delete from jobs")
    connection.execute("delete from lanes")
    for name, statement in {
        "served": "select register_worker('w', '1 minute', '{served}', '{served}', 5)",
        "scheduled": """select put_schedule('x', 'scheduled', '0 3 * * *', p_options => '{"queue": "scheduled"}')""",
        "limited": "select set_limit('few', 3, p_job_type => 'limited'), set_limit('q', 3, p_queue => 'limited')",
        "paused": "select pause('paused'), pause(null, 'paused')",
        "default": "select",
    }.items():
        kinds = ("queue",) if name == "default" else ("type", "queue")
        assert name == "default" or {operator.get(f"/{kind}?name={name}").status_code for kind in kinds} == {404}
        connection.execute(statement)
        assert {operator.get(f"/{kind}?name={name}").status_code for kind in kinds} == {200}, name


def test_a_paused_type_offers_to_resume(operator: Browser, queue: JobQueue) -> None:
    queue.enqueue("films")
    queue.pause("films")
    page = get(operator, "/type?name=films")
    assert "/resume?" in page
    assert "Resume…" in page
    assert "/errors?type=films" in page


def test_viewers_have_no_buttons_that_change_something(site: Site, queue: JobQueue) -> None:
    queue.enqueue("films")
    page = get(site.signed_in(VIEWER), "/type?name=films")
    assert "Pause…" not in page
    assert "films" in page


def test_limits_and_schedules_of_a_type_are_shown(
    operator: Browser, queue: JobQueue, connection: Connection[Any]
) -> None:
    queue.enqueue("films")
    for name, job_type in (("nightly", "films"), ("other", "film")):
        connection.execute("select put_schedule(%s, %s, '0 3 * * *')", [name, job_type])
        connection.execute("select set_limit(%s, 3, p_job_type => %s)", [f"limit {name}", job_type])
    page = get(operator, "/type?name=films")
    assert "/schedule?name=nightly" in page
    assert "/limit?name=limit+nightly" in page
    assert "name=other" not in page
    assert "limit+other" not in page


def test_settings_are_those_that_the_application_declares(app: Treadle) -> None:
    @app.job(retry=Retries(6), timeout="90s", queue="slow")
    def films() -> None:
        pass

    found = settings_of(app, "type", "films")
    assert found is not None
    shown = dict(found.items)
    assert (shown["Attempts"], shown["Timeout"], shown["Queue"], shown["Runs in"]) == (
        "7",
        "1m 30s",
        "slow",
        "a thread",
    )
    assert shown["Retries after"] == "1.0s, times 2 each time, at most 1h 00m, with 50% jitter"
    assert settings_of(app, "type", "unknown") is None
    assert settings_of(app, "queue", "films") is None


def test_the_verdict_is_the_first_thing_on_the_overview(
    operator: Browser, queue: JobQueue, connection: Connection[Any]
) -> None:
    page = get(operator, "/")
    assert page.index("All is well.") < page.index(">Waiting<")
    queue.enqueue("films")
    connection.execute("update jobs set run_at = now() - interval '10 minutes'")
    page = get(operator, "/")
    assert "All is well." in page  # as of at most 5 s ago
    connection.execute("select register_worker('w', '1 minute', '{other}', null, 5)")


def test_the_number_of_waiting_jobs_is_that_of_pending_jobs(operator: Browser, queue: JobQueue) -> None:
    """Including blocked ones, as in treadle top."""
    for _ in range(3):
        queue.enqueue("films", key="one after the other")
    queue.enqueue("films", delay=timedelta(hours=1))
    assert ">Waiting</a></dt><dd>4<" in get(operator, "/")


def test_a_missing_worker_is_in_the_verdict(operator: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("films")
    connection.execute("update jobs set run_at = now() - interval '10 minutes'")
    page = get(operator, "/")
    assert 'class="verdict critical"' in page
    assert "No worker is running, and jobs have been due for 10m" in page


@pytest.mark.own_database
def test_the_overview_knows_what_the_page_health_shows(operator: Browser, connection: Connection[Any]) -> None:
    connection.execute("drop index idx_jobs_finished")
    until(lambda: "Indexes are missing" in get(operator, "/"))
    page = get(operator, "/")
    assert "All is well." not in page
    assert 'class="verdict critical"' in page


def test_a_workflow_that_runs_is_not_called_blocked(
    operator: Browser, queue: JobQueue, connection: Connection[Any]
) -> None:
    workflow = enqueue_workflow(connection, "Import of films")
    queue.start(queue.claim(["step"], 1)[0])
    listed = get(operator, "/workflows")
    assert "Import of films" in listed
    assert "0 of 3 jobs" in listed
    assert "</span> running" in listed
    for path in (f"/jobs/{workflow}", "/jobs?type=workflow"):
        page = get(operator, path)
        assert page.count('class="status blocked"') == path.startswith("/jobs?")  # there it is a choice of the filter
        assert "</span> in progress" in page
    assert "No more matching" not in listed
    assert "No workflows yet" not in get(operator, "/workflows?state=failed")


def test_names_of_workflows_are_for_operators(site: Site, connection: Connection[Any]) -> None:
    enqueue_workflow(connection, "Import of films")
    assert "Import of films" not in get(site.signed_in(VIEWER), "/workflows?name=Import")
    viewer, operator = site.program(VIEWER), site.program(OPERATOR)
    assert [each["name"] for each in api(viewer, "/workflows")["workflows"]] == [None]
    assert "requires the role operator" in api(viewer, "/workflows?name=Import", 403)["error"]
    assert [each["name"] for each in api(operator, "/workflows?name=import&state=waiting")["workflows"]] == [
        "Import of films"
    ]
    assert api(operator, "/workflows?state=failed")["workflows"] == []


def test_types_queues_and_percentiles_in_the_api(viewer: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    add_minutes(connection, 30)
    queue.enqueue_many("type1", [{}] * 4, queue="queue1")
    types = {each["job_type"]: each for each in api(viewer, "/types?window=21600")["types"]}
    assert set(types) == {"type1", "type2", "type3"}
    assert types["type1"]["waiting"] == {"jobs": 4, "exact": True, "counted_at": None}
    one = api(viewer, "/type?name=type1")
    assert one["summary"]["activity"]["ran"]["p95"] > 0
    assert [each["window"] for each in one["activities"]] == [3600, 21_600, 86_400, 604_800]
    assert one["activities"][0]["completed"] == sum(each["completed"] for each in one["spans"])
    assert len(one["spans"]) == len(one["depths"]) == 61
    assert {each["queue"] for each in api(viewer, "/queues")["queues"]} == {"queue1", "queue2"}
    assert {each["job_type"] for each in api(viewer, "/queue?name=queue1")["parts"]} == {"type1", "type2", "type3"}
    api(viewer, "/type", 400)
    api(viewer, "/types?window=7", 400)


def test_marks_are_drawn_where_they_happened() -> None:
    now = datetime.fromisoformat("2026-11-18T03:00:00+00:00")
    spans = [Span(now + timedelta(minutes=n), 1, 0, 0, 0, *[None] * 4) for n in range(10)]
    marks = [
        Mark(now + timedelta(minutes=5), "pause", "films", None, "Ada", None),
        Mark(now - timedelta(minutes=5), "resume", "films", None, "Ada", None),
    ]
    made = panel(spans, 60, marks)
    assert [(each.x, each.text) for each in made.marks] == [(50.0, "films paused by Ada")]
    assert [each.name for each in made.charts] == ["throughput", "waiting", "failures"]
    depths = [None, *range(9)]
    more = panel(spans, 60, depths=depths, run_times=True)
    assert [each.name for each in more.charts] == ["throughput", "waiting", "running-time", "failures", "depth"]
    assert more.charts[-1].summary == "At most 8 jobs waited."


def test_a_hundred_workers_with_fifty_slots_are_drawn_with_bounded_markup(
    monkeypatch: pytest.MonkeyPatch, queue: JobQueue
) -> None:
    job = queue.enqueue("films")
    now = datetime.fromisoformat("2026-11-18T03:00:00+00:00")

    def worker(nth: int, used: int, alive: bool = True) -> WorkerSlots:
        row = WorkerRow(
            f"w{nth:03}", None, None, None, [], None, 50, now, now, alive, None, used, 50, "alive" if alive else "lost"
        )
        jobs = [ClaimedJob(row.worker_id, used, used, job, "films", True, now)] * used
        return WorkerSlots(row, used, 0, jobs, 50, 0)

    workers = [*(worker(nth, 30) for nth in range(120)), worker(999, 1, alive=False)]
    made = draw_slots(SlotMap(workers, 0, 0, 0, True))
    assert len(made.rows) == drawing.MAX_ROWS
    assert made.more == 21
    assert not made.labelled
    assert made.rows[0].worker.worker.worker_id == "w999"
    assert sum(len(each.cells) + each.free for each in made.rows) == drawing.MAX_CELLS
    assert sum(len(each.cells) + each.free + each.hidden for each in made.rows) == 100 * 50 - 49, "one is lost"
    assert made.rows[50].summary == "30 running, 20 free"
