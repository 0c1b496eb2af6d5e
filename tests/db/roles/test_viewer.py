"""The viewer role can watch and list jobs, without their payloads."""

import asyncio
import json
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.support.commands import run_treadle
from tests.support.dashboards import OPERATOR, SECRETS, VIEWER, Site
from tests.support.error_groups import count_now, groups
from tests.support.graphs import insert_workflow
from tests.support.roles import Roles
from tests.support.why import register_worker
from tests.support.workers import one
from treadle import JobQueue, NotAllowed, Status, Treadle
from treadle.db.queries import listing as listing_queries
from treadle.db.queries import operations as operation_queries
from treadle.db.queries import schedules as schedule_queries
from treadle.doctor import Severity
from treadle.doctor.examine import examine
from treadle.operations.overview import overview
from treadle.web import dashboard_app
from treadle.web.dashboard.app import routes
from treadle.words.listing import JobFilter


def test_a_viewer_can_watch_jobs(roles: Roles, queue: JobQueue) -> None:
    done = queue.enqueue("films", {"secret": 1})
    (job,) = queue.claim(["films"])
    queue.start(job)
    queue.event(job, "cut", scene=7)
    app = Treadle(roles.url_of("viewer"))
    assert [event.name for event in app.handle(done).events(follow=False)] == ["enqueued", "claimed", "started", "cut"]
    assert app.handle(done).logs() == []
    assert app.handle(done).errors() == []
    queue.complete(job)
    watched = run_treadle("watch", str(done), "--database-url", roles.url_of("viewer"))
    assert (watched.exit_code, watched.stderr) == (0, "")
    assert "films: completed" in watched.stdout
    assert app.queue.counts() == {Status.COMPLETED: 1} | {
        status: 0 for status in Status if status is not Status.COMPLETED
    }
    with pytest.raises(NotAllowed):
        app.handle(done).job()
    app.close()


@pytest.mark.parametrize("group", ["viewer", "operator"])
def test_a_viewer_and_an_operator_can_ask_why_a_job_does_not_run(
    roles: Roles, queue: JobQueue, owner: Connection[Any], group: str
) -> None:
    register_worker(owner)
    queue.enqueue("mail", key="k")
    made = queue.enqueue("mail", key="k")
    app = Treadle(roles.url_of(group))
    assert app.handle(made).why().name == "key_blocked"
    owner.execute("begin")
    owner.execute("select from jobs where id = %s for update", [made])
    also = [each.name for each in app.handle(made).why().also]
    assert also[0] == "busy"  # and locked, but this role may not see since when
    owner.execute("rollback")
    app.close()


@pytest.mark.parametrize("group", ["viewer", "operator"])
def test_a_viewer_and_an_operator_can_get_the_overview(roles: Roles, queue: JobQueue, group: str) -> None:
    queue.enqueue("films", {})
    queue.pause("films")
    app = Treadle(roles.url_of(group))
    seen = overview(app.database)
    assert [(lane.job_type, lane.depth, lane.paused) for lane in seen.lanes] == [("films", 1, True)]
    (audited,) = app.database.read(operation_queries.find_audit())
    assert audited.action == "pause"
    app.close()


@pytest.mark.parametrize("group", ["viewer", "operator"])
def test_a_viewer_and_an_operator_see_schedules_and_why_they_do_not_run(
    roles: Roles, owner: Connection[Any], group: str
) -> None:
    owner.execute("select put_schedule('nightly', 'report', '0 3 * * *')")
    owner.execute("select operate_schedule('run', 'nightly')")
    owner.execute("select operate_schedule('pause', 'nightly', 'ada', 'why not')")
    owner.execute("update schedules set overlap = 'skip'")
    app = Treadle(roles.url_of(group))
    (schedule,) = app.database.read(schedule_queries.find_statuses()).schedules
    assert (schedule.state, [each.outcome for each in schedule.history]) == ("paused", ["pending"])
    assert "ada paused it" in app.schedules.why("nightly").sentence
    found = {each.name: each.level for each in examine(app.database)}
    assert {found[name] for name in ("late_schedules", "failing_schedules", "unserved_schedules")} == {Severity.OK}
    app.close()


@pytest.mark.parametrize("group", ["viewer", "operator", "worker"])
def test_limits_and_why_a_job_waits_for_one_are_visible(
    roles: Roles, owner: Connection[Any], queue: JobQueue, group: str
) -> None:
    owner.execute("select set_limit('films', 1, p_job_type => 'films', p_per => 'tenant')")
    queue.enqueue("films", {"tenant": "acme"})
    waits = queue.enqueue("films", {"tenant": "acme"})
    queue.claim(["films"])
    queue.claim(["films"])
    app = Treadle(roles.url_of(group))
    assert [(each.key, each.in_use, each.waiting) for each in app.limits()] == [("acme", 1, 1), (None, None, 0)]
    assert app.handle(waits).why().name == "limited"
    if group == "viewer":
        with pytest.raises(NotAllowed):
            app.limits.pause("films", "acme")
    else:
        app.limits.pause("films", "acme")
        assert app.limits.reset("films", "acme")
    app.close()


@pytest.mark.usefixtures("patient")
def test_a_dashboard_with_the_rights_of_a_viewer_shows_schedules_and_cannot_change_them(
    roles: Roles, owner: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.execute("select put_schedule('nightly', 'report', '0 3 * * *')")
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    app = Treadle(roles.url_of("viewer"))
    site = Site(dashboard_app(app), app)
    program = site.program(OPERATOR)
    for path in ("/schedules", "/schedule?name=nightly", "/schedules/pause?name=nightly"):
        assert program.get(path).status_code == 200
    assert program.send("GET", "/api/schedules").json()["total"] == 1
    assert program.send("GET", "/api/names").json()["types"] == ["report"]
    answer = program.send("POST", "/api/schedules/pause", json={"name": "nightly"})
    assert (answer.status_code, "lacks a privilege" in answer.json()["error"]) == (503, True)
    assert one(owner, "select paused_at from schedules") is None
    site.close()


@pytest.mark.usefixtures("patient")
def test_a_dashboard_with_the_rights_of_a_viewer_shows_limits_and_cannot_change_them(
    roles: Roles, owner: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.execute("select set_limit('films', 1, p_job_type => 'films', p_per => 'tenant')")
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    app = Treadle(roles.url_of("viewer"))
    site = Site(dashboard_app(app), app)
    program = site.program(OPERATOR)
    for path in ("/limits", "/limits?search=f", "/limit?name=films&key=acme", "/limits/pause?name=films&key=acme"):
        assert program.get(path).status_code == 200
    for query in ("", "?name=films&key=acme", "?search=film"):
        assert program.send("GET", f"/api/limits{query}").json()["limits"][-1]["name"] == "films"
    answer = program.send("POST", "/api/limits/pause", json={"name": "films"})
    assert (answer.status_code, "lacks a privilege" in answer.json()["error"]) == (503, True)
    assert one(owner, "select amount from limits") == 1
    site.close()


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("secret", [VIEWER, pytest.param(OPERATOR, marks=pytest.mark.long)])
def test_a_dashboard_with_the_rights_of_a_viewer_shows_every_page(
    roles: Roles, queue: JobQueue, owner: Connection[Any], monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    made, _ = insert_workflow(owner, [(), (0,)], title="xyzzy")
    failed = queue.enqueue("films", {"title": "xyzzy"})
    queue.fail(queue.claim(["films"])[0], "torn", final=True)
    source = Treadle(roles.url)
    count_now(source)
    (group,) = groups(source).values()
    source.close()
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    app = Treadle(roles.url_of("viewer"))
    site = Site(dashboard_app(app), app)
    program = site.program(secret)
    shown = [
        route for route in routes(app) if route.method == "GET" and not route.path.startswith(("/assets", "/live"))
    ]
    for route in shown:
        for each in (group.id,) if "errors/" in route.path else (made, failed):
            answer = program.get(route.path.replace("{id}", str(each)))
            assert answer.status_code not in (500, 503), (route.path, answer.text)
            assert "xyzzy" not in answer.text
    pages = [program.get(f"/jobs/{each}").text for each in (made, failed)]
    assert "event: job" in program.get(f"/live/jobs/{failed}").text
    reason = "The database role of this dashboard may not read them" if secret is OPERATOR else "Visible to operators"
    assert all(reason in each for each in pages)
    shown = program.send("GET", f"/api/jobs/{failed}").json()
    assert shown["data"] is None
    assert shown["hidden"] == ["data", "result", "checkpoint", "headers", "steps.result"]
    assert program.send("GET", f"/api/jobs/{made}/graph").json()["nodes"]
    site.close()
    for arguments in (["show", str(failed)], ["show", str(made)]):
        printed = run_treadle(*arguments, "--database-url", roles.url_of("viewer"))
        assert (printed.exit_code, printed.stderr) == (0, "")
        assert "This database role may not read them" in printed.stdout
        printed = run_treadle(*arguments, "--json", "--database-url", roles.url_of("viewer"))
        shown = json.loads(printed.stdout)
        assert shown["job"]["data"] is None
        assert shown["hidden"] == ["job.data", "job.result", "job.checkpoint", "job.headers", "steps.result"]
        printed = run_treadle(*arguments, "--json", "--database-url", roles.url_of("operator"))
        assert json.loads(printed.stdout)["hidden"] == []


@pytest.mark.parametrize("status", [None, "pending"])
def test_a_viewer_lists_jobs_but_cannot_search_payloads(roles: Roles, queue: JobQueue, status: str | None) -> None:
    """Otherwise a viewer could guess the contents of payloads letter by letter."""
    queue.enqueue("films", {"title": "Alien"})
    failed = queue.enqueue("films", {})
    queue.fail(next(job for job in queue.claim(["films"], 2) if job.id == failed), "no alien here", delay="1h")
    queue.release(queue.list(status="claimed").jobs[0])

    def found(group: str, search: str) -> int:
        with psycopg.connect(roles.url_of(group)) as connection:
            text = "select count(*) filter (where fits) from treadle.find_jobs(%s, p_search => %s, p_patience => null)"
            return int(one(connection, text, status, search))

    assert (found("viewer", "ALIEN"), found("operator", "ALIEN")) == (1, 2)
    for group in ("viewer", "operator"):
        app = Treadle(roles.url_of(group))
        assert len(app.database.read(listing_queries.find_jobs(JobFilter())).jobs) == 2
        app.close()
        for arguments in (["why", str(failed)], ["doctor"]):
            shown = run_treadle(*arguments, "--json", "--database-url", roles.url_of(group))
            assert "permission denied" not in shown.stdout + shown.stderr
            assert [json.loads(line) for line in shown.stdout.splitlines()], shown.stderr


def test_a_viewer_is_notified_of_events(roles: Roles, queue: JobQueue) -> None:
    """It asks to be notified through a function, because it may not write itself."""
    job_id = queue.enqueue("films", {})
    (job,) = queue.claim(["films"])
    app = Treadle(roles.url_of("viewer"))

    async def follow() -> list[str]:
        names: list[str] = []
        async for event in app.handle(job_id).events():
            names.append(event.name)
            if event.name == "claimed":
                await asyncio.to_thread(queue.event, job, "cut")
                await asyncio.to_thread(queue.complete, job)
        await app.aclose()
        return names

    assert asyncio.run(follow()) == ["enqueued", "claimed", "cut", "completed"]
    connection = roles.connect("viewer")
    for kind, clock in (("ends", "awaited"), ("news", "watched")):
        connection.execute(f"select request_notifications('{kind}', '100 years')")
        left = f"select to_timestamp(last_value / 1000000) - now() < interval '6 minutes' from {clock}"
        assert one(connection, left), "a viewer could make every worker notify for ever"
