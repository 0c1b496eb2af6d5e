"""The Workers page and the workers in the API."""

from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection

from tests.support.dashboards import VIEWER, Browser, Site
from treadle import JobQueue, Retries, Treadle
from treadle.cli.stats import worker_row
from treadle.cli.top.header import second_line
from treadle.operations.metrics import exposition, metrics
from treadle.operations.overview import overview
from treadle.web.dashboard.pages.live.regions import rendered
from treadle.web.dashboard.pages.workers import LIST, template_values
from treadle.web.dashboard.security.access import Role


@pytest.fixture
def viewer(site: Site) -> Browser:
    return site.program(VIEWER)


def register(connection: Connection[Any], name: str = "w1", more: str = "null, 3") -> None:
    connection.execute(f"select register_worker(%s, '10 s', '{{a,film}}', {more})", [name])


def workers(viewer: Browser) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = viewer.send("GET", "/api/workers").json()["workers"]
    return found


def test_prefetched_jobs_take_no_slots(viewer: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    register(connection)
    queue.enqueue_many("a", [{}] * 20)
    JobQueue(connection, "w1").claim(["a"], 8)
    (worker,) = workers(viewer)
    assert [worker[name] for name in ("holds", "running", "prefetched", "slots")] == [8, 3, 5, 3]
    assert "3 starting, 0 free, 5 prefetched" in viewer.get("/").text
    assert "3 of 3" in viewer.get("/workers").text


def test_jobs_in_child_processes_have_slots_of_their_own(
    viewer: Browser, queue: JobQueue, connection: Connection[Any]
) -> None:
    register(connection, more="null, 3, null, null, null, '{film}', 2")
    mine = JobQueue(connection, "w1")
    queue.enqueue_many("film", [{}] * 4)
    queue.enqueue("a")
    mine.claim(["film"], 4)
    mine.claim(["a"], 1)
    (worker,) = workers(viewer)
    assert [worker[name] for name in ("running", "prefetched", "slots")] == [3, 2, 5]
    connection.execute("select set_concurrency('w1', 0)")
    (worker,) = workers(viewer)
    assert [worker[name] for name in ("running", "slots")] == [0, 0]


def test_more_jobs_can_run_than_there_are_slots_now(
    viewer: Browser, queue: JobQueue, connection: Connection[Any]
) -> None:
    register(connection)
    mine = JobQueue(connection, "w1")
    queue.enqueue_many("a", [{}] * 3)
    for job in mine.claim(["a"], 3):
        mine.start(job)
    connection.execute("select set_concurrency('w1', 1)")
    (worker,) = workers(viewer)
    assert [worker[name] for name in ("running", "prefetched", "slots")] == [3, 0, 1]


def test_a_worker_without_a_heartbeat_does_not_look_alive(
    app: Treadle, viewer: Browser, connection: Connection[Any]
) -> None:
    register(connection)
    page = viewer.get("/workers").text
    assert "alive" in page
    seen_at = app.workers()[0].seen_at
    # A page that is not updated any more says so itself when the lease has run out.
    assert f'data-until="{(seen_at + timedelta(seconds=10)).isoformat()}"' in page
    connection.execute("update workers set seen_at = seen_at - interval '41 s'")
    page = viewer.get("/workers").text
    assert "no heartbeat" in page
    current = overview(app.database)
    assert str(worker_row(current.workers[0], current.at)[-1]) == "no heartbeat"
    assert "1 without heartbeat" in second_line(current, 200).plain
    assert 'treadle_workers{state="silent"} 1' in exposition(metrics(app.database))
    assert 'treadle_workers{state="lost"} 0' in exposition(metrics(app.database))
    assert "data-until" not in page
    assert workers(viewer)[0]["state"] == "silent"


def test_a_worker_that_sleeps_is_shown_as_asleep(
    app: Treadle, viewer: Browser, queue: JobQueue, connection: Connection[Any]
) -> None:
    register(connection)
    queue.enqueue("a")
    connection.execute("select renew_workers('{w1}', '2 hours', true)")
    # It sends no heartbeats, and wakes after an hour.
    connection.execute("update workers set seen_at = seen_at - interval '61 minutes'")
    page = viewer.get("/workers").text
    assert "asleep" in page
    assert "no heartbeat" not in page
    (worker,) = workers(viewer)
    assert (worker["state"], worker["alive"]) == ("asleep", True)
    assert worker["asleep_at"]
    assert "asleep" in viewer.get("/").text
    current = overview(app.database)
    assert "1 asleep" in second_line(current, 200).plain
    assert str(worker_row(current.workers[0], current.at)[-1]) == "asleep"
    assert [lane.served for lane in current.lanes] == [True]
    assert 'treadle_workers{state="asleep"} 1' in exposition(metrics(app.database))
    connection.execute("select renew_workers('{w1}', '10 s')")
    assert workers(viewer)[0]["state"] == "alive"


def test_lost_workers_are_shown_for_a_day_with_what_became_of_their_jobs(
    app: Treadle, viewer: Browser, queue: JobQueue, connection: Connection[Any]
) -> None:
    for name in ("busy", "idle", "dead"):
        register(connection, name)
    queue.enqueue_many("a", [{}] * 2, retry=Retries(0))
    crashing = JobQueue(connection, "busy").claim(["a"], 2)[0]
    recovery = "select recover_worker('busy', 'its worker process died', %s, p_crash_limit => 1)"
    connection.execute(recovery, [[crashing.id]])
    connection.execute("select recover_worker('idle', 'gone', '{}')")
    connection.execute("update workers set lost_at = lost_at - interval '23 hours' where worker_id = 'idle'")
    JobQueue(connection, "dead").claim(["a"], 1)
    connection.execute("update workers set seen_at = seen_at - interval '3 days' where worker_id = 'dead'")
    page = viewer.get("/workers").text
    assert "its worker process died" in page
    assert "1 given back to run again, 1 failed" in page
    assert "It had none." in page
    states = {each["worker_id"]: each["state"] for each in workers(viewer)}
    assert states == {"busy": "lost", "idle": "lost", "dead": "silent"}, "one whose jobs are not settled stays"
    assert {each.worker_id for each in overview(app.database).workers} == {"busy", "dead"}, "elsewhere for an hour"
    page = viewer.get("/").text
    assert "1 worker is lost." in page
    assert "1 worker sends no heartbeat." in page
    assert "not responding" not in page
    connection.execute("select renew_workers('{busy}', '10 s')")
    assert workers(viewer)[0]["lost_because"] is None


def test_the_page_of_a_failed_job_names_its_last_worker(
    viewer: Browser, queue: JobQueue, connection: Connection[Any]
) -> None:
    job_id = queue.enqueue("a", retry=Retries(0))
    mine = JobQueue(connection, "w1")
    mine.fail(mine.claim(["a"], 1)[0], "no")
    page = viewer.get(f"/jobs/{job_id}").text
    assert '<dt>Last worker</dt><dd>w1 <span class="muted">(attempt 1)</span></dd>' in page


def test_the_stack_of_a_stuck_worker_is_masked(viewer: Browser, connection: Connection[Any]) -> None:
    register(connection)
    connection.execute("select report_stuck('w1', 'blocked', 4, null, %s)", ["call(password='hunter2')"])
    page = viewer.get("/workers").text
    assert "w1 is stuck" in page
    assert "call(password=" in page
    assert "hunter2" not in page
    assert "hunter2" not in viewer.send("GET", "/api/workers").text
    register(connection)
    assert workers(viewer)[0]["stuck"] is None, "a worker that starts again is not stuck"


def test_the_page_is_updated_live(viewer: Browser, app: Treadle, connection: Connection[Any]) -> None:
    register(connection)
    assert 'data-live="/live/workers"' in viewer.get("/workers").text
    connection.execute("select report_stuck('w1', 'stopped', 4)")
    found = app.workers()
    regions = rendered("", Role.VIEWER, LIST.regions, template_values(found))
    assert regions.at == found[0].at
    assert "its process was stopped" in regions.html["worker-list"]
