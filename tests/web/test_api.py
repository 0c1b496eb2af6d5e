"""The JSON API of the dashboard: what it returns, what it refuses, and its description."""

import json
import uuid
from typing import Any

import pytest
from psycopg import Connection

from tests.support.dashboards import OPERATOR, VIEWER, Browser, Site
from treadle import JobQueue, Status, Treadle, Workflow, wait_for_signal
from treadle.web.dashboard.app import routes
from treadle.web.dashboard.security.access import Role

SOME_JOB = "01a1df2b-a83d-7507-abad-c01c83b49cb9"


@pytest.fixture
def viewer(site: Site) -> Browser:
    return site.program(VIEWER)


@pytest.fixture
def program(site: Site) -> Browser:
    return site.program(OPERATOR)


HUSH = "cannot reach postgresql://ada:hush-hush-hush-hush@db/films"


def get(browser: Browser, path: str, **params: Any) -> Any:
    answer = browser.send("GET", f"/api{path}", params=params)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), answer.text
    return answer.json()


def post(browser: Browser, path: str, body: Any = None) -> tuple[int, Any]:
    answer = browser.send("POST", f"/api{path}", json=body) if body is not None else browser.send("POST", f"/api{path}")
    return answer.status_code, answer.json()


def job_with_history(queue: JobQueue, connection: Connection[Any]) -> uuid.UUID:
    """A job with an error, an event, a log line, a step and a checkpoint."""
    job = queue.enqueue("films", {"name": "Stalker", "api_key": "k-123", "deep": [{"password": "p"}]}, key="a")
    (claimed,) = queue.claim(["films"])
    queue.progress(claimed, 40, "reading")
    queue.event(claimed, "rendered", frames=7, token="t")  # noqa: S106
    connection.execute(
        """update jobs set checkpoint = '{"at": 3, "secret": "s"}', flags = 7,
            headers = '{"trace": "7", "api_key": "s"}';
        insert into steps (job_id, position, name, result, lease) select id, 1, 'cut', '{"cookie": "c"}', 1 from jobs;
        insert into logs (job_id, number, attempt, lease, sequence, logged_at, level, logger, message)
        select id, 1, 1, 1, 1, now(), 20, 'films', 'from postgresql://ada:hush@db/films' from jobs"""
    )
    queue.fail(claimed, "cannot reach postgresql://ada:hush@db/films")
    return job


def test_overview(viewer: Browser, queue: JobQueue) -> None:
    queue.enqueue("films", queue="slow")
    queue.pause("other")
    found = get(viewer, "/overview", window=21_600)
    assert [(lane["job_type"], lane["queue"], lane["depth"]) for lane in found["lanes"]] == [("films", "slow", 1)]
    assert found["totals"]["pending"] == {"jobs": 1, "exact": True, "counted_at": None}
    assert (found["step"], len(found["spans"])) == (300, 73)
    assert [each["job_type"] for each in found["pauses"]] == ["other"]


def test_jobs_are_paginated(viewer: Browser, queue: JobQueue) -> None:
    jobs = [str(queue.enqueue("films")) for _ in range(5)]
    queue.enqueue("other")
    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = get(viewer, "/jobs", type="films", limit=2, **after)
        found += [job["id"] for job in page["jobs"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert found == jobs[::-1]


def test_a_job_with_its_history(program: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    job = job_with_history(queue, connection)
    program.send("POST", f"/api/jobs/{job}/priority", json={"priority": 7, "reason": "soon"})
    found = get(program, f"/jobs/{job}")
    assert (found["status"], found["priority"], found["stage"], found["key"]) == ("pending", 7, "reading", "a")
    assert [(each["attempt"], each["worker_id"]) for each in found["failed_attempts"]] == [(1, "worker-1")]
    assert [(each["name"], each["number"]) for each in found["events"]] == [
        ("enqueued", None),
        ("rendered", 1),
        ("retried", None),
    ]
    assert [(each["level"], each["logger"]) for each in found["logs"]] == [("INFO", "films")]
    assert [(each["actor"], each["reason"]) for each in found["audit"]] == [("dashboard:token (operator)", "soon")]


def test_operators_see_masked_payloads(program: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    found = get(program, f"/jobs/{job_with_history(queue, connection)}")
    mask = "********"
    assert found["data"] == {"name": "Stalker", "api_key": mask, "deep": [{"password": mask}]}
    assert found["checkpoint"] == {"at": 3, "secret": mask}
    assert found["headers"] == {"trace": "7", "api_key": mask}
    assert found["steps"] == [{"name": "cut", "result": {"cookie": mask}}]
    assert found["events"][1]["data"] == {"frames": 7, "token": mask}
    assert "hush" not in json.dumps(found)


def test_viewers_do_not_see_payloads(viewer: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    job = job_with_history(queue, connection)
    connection.execute("""update jobs set result = '{"name": "Stalker"}'""")
    found = get(viewer, f"/jobs/{job}")
    assert [found[name] for name in ("data", "result", "checkpoint", "headers")] == [None] * 4
    assert found["steps"] == [{"name": "cut", "result": None}]
    assert "Stalker" not in json.dumps(found)
    assert "hush" not in json.dumps(found)
    assert "hush" not in json.dumps(get(viewer, "/jobs"))


def test_viewers_cannot_search_in_payloads(site: Site, viewer: Browser, queue: JobQueue) -> None:
    job = queue.enqueue("films", {"name": "Stalker"})
    assert get(viewer, "/jobs", search="Stalk")["jobs"] == []
    assert len(get(viewer, "/jobs", search=job.hex[-8:])["jobs"]) == 1
    for condition in ('data.name = "Stalker"', "data.name exists"):
        answer = viewer.send("GET", "/api/jobs", params={"where": condition})
        assert (answer.status_code, "operator" in answer.json()["error"]) == (403, True)
        assert len(get(site.program(OPERATOR), "/jobs", where=condition)["jobs"]) == 1
    assert len(get(site.program(OPERATOR), "/jobs", search="stalk")["jobs"]) == 1
    assert post(viewer, "/bulk", {"action": "retry", "filter": {"search": "S"}})[0] == 403


def test_workers_pauses_and_audit(program: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    connection.execute("insert into workers (worker_id, lease, host) values ('w', '1 hour', 'mill')")
    assert [each["host"] for each in get(program, "/workers")["workers"]] == ["mill"]
    assert post(program, "/pauses", {"job_type": "films", "reason": "r"}) == (200, {"done": True})
    assert post(program, "/pauses", {"job_type": "films"}) == (200, {"done": False})
    assert [each["reason"] for each in get(program, "/pauses")["pauses"]] == ["r"]
    assert post(program, "/resumes", {"job_type": "films"}) == (200, {"done": True})
    assert [each["action"] for each in get(program, "/audit")["changes"]] == ["resume", "pause"]
    first = get(program, "/audit", limit=1)
    assert [each["action"] for each in get(program, "/audit", limit=1, before=first["next"])["changes"]] == ["pause"]


def test_send_a_signal(program: Browser, app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    @app.job
    async def write() -> None: ...

    flow = Workflow()
    flow.add(wait_for_signal("approved"), name="approval")
    flow.add(write.call())
    handle = flow.enqueue()
    path, step = f"/jobs/{handle.id}/signal", handle.steps["approval"].id
    assert post(program, path, {"name": "aproved"})[0] == 404
    assert post(program, path, {"name": ""})[0] == 400
    assert post(program, path, {"name": "approved", "value": {"by": "ann"}}) == (200, {"done": True})
    assert post(program, path, {"name": "approved"})[0] == 409
    assert queue.get(step).result == {"by": "ann"}
    assert connection.execute("select action, job_id from audit").fetchall() == [("signal", step)]


def test_change_the_concurrency_of_a_worker(program: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    connection.execute("select register_worker('w', '1 hour', '{a}', null, 50)")
    body = {"worker_id": "w", "concurrency": 0, "reason": "r"}
    assert post(program, "/workers/concurrency", body) == (200, {"done": True})
    assert post(program, "/workers/concurrency", body) == (200, {"done": False})
    (worker,) = get(program, "/workers")["workers"]
    assert (worker["concurrency"], worker["initial_concurrency"]) == (0, 50)
    assert post(program, "/workers/concurrency", body | {"concurrency": None}) == (200, {"done": True})
    assert post(program, "/workers/concurrency", body | {"worker_id": "x"})[0] == 404
    for wrong in ({"concurrency": -1}, {"concurrency": 10_001}, {"concurrency": "5"}, {"worker_id": ""}):
        assert post(program, "/workers/concurrency", body | wrong)[0] == 400
    assert post(program, "/workers/concurrency", {"worker_id": "w"})[0] == 400, "nothing resets by mistake"


def test_change_a_job(program: Browser, queue: JobQueue) -> None:
    job = queue.enqueue("films", delay="1h")
    assert post(program, f"/jobs/{job}/run_now") == (200, {"id": str(job), "outcome": "done", "status": "pending"})
    assert post(program, f"/jobs/{job}/run_now")[0] == 409
    assert post(program, f"/jobs/{job}/cancel", {"reason": "no"})[0] == 200
    assert queue.get(job).last_error == "no"
    code, body = post(program, f"/jobs/{job}/cancel", {})
    assert (code, body) == (
        409,
        {"error": f"job {job} is cancelled: its status does not allow this action, or nothing would change"},
    )
    assert post(program, f"/jobs/{job}/delete")[0] == 200
    assert post(program, f"/jobs/{job}/delete")[0] == 404
    assert program.send("GET", f"/api/jobs/{job}").status_code == 404


def test_bulk_changes(program: Browser, queue: JobQueue) -> None:
    jobs = [str(queue.enqueue("films")) for _ in range(3)]
    counts = {"unfit": 0, "busy": 0, "missing": 0, "next": None}
    assert post(program, "/bulk", {"action": "priority", "ids": jobs, "priority": 5}) == (200, counts | {"done": 3})
    order = {"action": "cancel", "filter": {"type": "films"}, "reason": "no"}
    code, first = post(program, "/bulk", order)
    assert (code, first["done"]) == (200, 3)
    assert post(program, "/bulk", order | {"after": first["next"]}) == (200, counts | {"done": 0})
    assert post(program, "/bulk", order | {"after": "1~completed~"})[0] == 400
    assert {job.status for job in queue.list().jobs} == {Status.CANCELLED}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/bulk", {"action": "cancel"}),
        ("/bulk", {"action": "cancel", "filter": {}}),
        ("/bulk", {"action": "cancel", "filter": {"type": "a"}, "all": True}),
        ("/bulk", {"action": "cancel", "ids": []}),
        ("/bulk", {"action": "cancel", "ids": ["x"]}),
        ("/bulk", {"action": "cancel", "ids": [SOME_JOB], "filter": {}}),
        ("/bulk", {"action": "cancel", "ids": [SOME_JOB], "after": "x"}),
        ("/bulk", {"action": "cancel", "ids": [SOME_JOB], "priority": 1}),
        ("/bulk", {"action": "priority", "ids": [SOME_JOB]}),
        ("/bulk", {"action": "explode", "filter": {}}),
        ("/bulk", {"action": "cancel", "filter": {"color": "red"}}),
        ("/pauses", {}),
        ("/pauses", {"job_type": "a", "everything": True}),
        ("/pauses", {"job_type": "a" * 51}),
        ("/pauses", {"job_type": "a\u0000"}),
        ("/pauses", []),
        ("/pauses", "films"),
        (f"/jobs/{SOME_JOB}/priority", {}),
        (f"/jobs/{SOME_JOB}/priority", {"priority": "7"}),
        (f"/jobs/{SOME_JOB}/priority", {"priority": 2**31}),
        ("/jobs/7/retry", {}),
    ],
)
def test_invalid_bodies_are_refused(
    program: Browser, queue: JobQueue, connection: Connection[Any], path: str, body: Any
) -> None:
    job = queue.enqueue("films")
    code, result = post(program, path, body)
    assert (code, list(result)) == (400, ["error"]), result
    assert queue.get(job).status == Status.PENDING
    assert connection.execute("select count(*) from audit").fetchone() == (0,)


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=201", "limit=x", "status=lost", "after=x", "color=red", "type=a&type=b", "type=", "key=a%00"],
)
def test_invalid_query_parameters_are_refused(viewer: Browser, query: str) -> None:
    assert viewer.send("GET", f"/api/jobs?{query}").status_code == 400
    assert viewer.send("GET", "/api/workers?a=1").status_code == 400


def test_bodies_must_be_json(program: Browser, queue: JobQueue) -> None:
    job = queue.enqueue("films")
    path = f"/api/jobs/{job}/cancel"
    assert program.send("POST", path, data={"reason": "no"}).status_code == 415
    assert program.send("POST", path, content=b"{}", headers={"content-type": "text/plain"}).status_code == 415
    for broken in (b"{", b"\xff", b"[" * 50_000, b'{"reason": NaN}'):
        answer = program.send("POST", path, content=broken, headers={"content-type": "application/json"})
        assert answer.status_code == 400
    assert queue.get(job).status == Status.PENDING


def test_a_script_sends_the_csrf_token_in_a_header(operator: Browser, queue: JobQueue) -> None:
    job = queue.enqueue("films")
    path, origin = f"/api/jobs/{job}/cancel", {"origin": "http://queue.example"}
    assert operator.send("POST", path, json={}, headers=origin).status_code == 403
    assert operator.send("POST", path, json={"csrf_token": operator.csrf_token}, headers=origin).status_code == 403
    assert (
        operator.send("POST", path, json={}, headers=origin | {"x-csrf-token": operator.csrf_token}).status_code == 200
    )


def test_errors_are_json(site: Site, viewer: Browser) -> None:
    for browser, path, status in (
        (site.browser(), "/api/jobs", 401),
        (viewer, "/api/nothing", 404),
        (viewer, f"/api/jobs/{uuid.uuid4()}", 404),
        (viewer, "/api/bulk", 405),
    ):
        answer = browser.send("GET", path, headers={"accept": "text/html"})
        assert answer.status_code == status
        assert list(answer.json()) == ["error"]


def test_why_and_health(viewer: Browser, queue: JobQueue) -> None:
    job = queue.enqueue("films", delay="1h")
    assert get(viewer, f"/jobs/{job}/why")["name"] == "due_later"
    found = get(viewer, "/health")
    assert found["level"] == found["findings"][0]["level"]
    assert {"name", "level", "title", "detail", "remedy"} == set(found["findings"][0])


def test_every_api_route_is_in_the_openapi_description(viewer: Browser, app: Treadle) -> None:
    description = get(viewer, "/openapi.json")
    served = [route for route in routes(app) if route.path.startswith("/api/") and route.path != "/api/openapi.json"]
    assert served
    for route in served:
        assert route.response_model is not None, f"{route.path} has no response model"
        assert route.role == (Role.VIEWER if route.method == "GET" else Role.OPERATOR)
        described = description["paths"][route.path][route.method.lower()]
        assert described["responses"]["200"]["content"]["application/json"]["schema"]
        assert (route.body_model is not None) == (route.method == "POST") == ("requestBody" in described)
    assert sum(len(each) for each in description["paths"].values()) == len(served)


LEAKY_ERROR = "cannot reach postgresql://ada:hush-hush-hush-hush@db/films"


def test_why_masks_secrets(viewer: Browser, site: Site, queue: JobQueue) -> None:
    job = queue.enqueue("films")
    for error in (LEAKY_ERROR, "x" * 160 + LEAKY_ERROR):  # the second is truncated before its @
        queue.fail(queue.claim(["films"])[0], error, delay="1h")
        why = get(viewer, f"/jobs/{job}/why")
        assert (why["name"], "://ada:****" in why["sentence"]) == ("due_later", True)
        assert "hush" not in json.dumps(why)
        page = site.signed_in(VIEWER).get(f"/jobs/{job}").text
        assert "://ada:****" in page.partition("Why this job is not running")[2].partition("</p>")[0]
        assert "hush" not in page
        assert post(site.program(OPERATOR), f"/jobs/{job}/run_now")[0] == 200


def test_no_response_and_no_page_shows_a_secret_in_a_reason(
    viewer: Browser, site: Site, queue: JobQueue, connection: Connection[Any]
) -> None:
    job = queue.enqueue("films")
    connection.execute("select pause('films', null, 'ada', %s::text)", [HUSH])
    connection.execute(
        "insert into audit (actor, action, job_id, reason) values ('ada', 'retry', %s, %s::text)", [job, HUSH]
    )
    for path in ("/pauses", "/overview", "/audit", f"/jobs/{job}", f"/jobs/{job}/why"):
        response = json.dumps(get(viewer, path))
        assert ("://ada:****" in response, "hush" in response) == (True, False), path
    browser = site.signed_in(VIEWER)
    for path in ("/", "/audit", f"/jobs/{job}"):
        page = browser.get(path).text
        assert ("://ada:****" in page, "hush" in page) == (True, False), path


def test_a_step_result_is_masked_by_the_name_of_the_step(
    program: Browser, queue: JobQueue, connection: Connection[Any]
) -> None:
    job = queue.enqueue("films")
    connection.execute(
        """insert into steps (job_id, position, name, result, lease) values
        (%(job)s, 1, 'fetch_token', '"hush"', 1), (%(job)s, 2, 'cut', '"reel"', 1)""",
        {"job": job},
    )
    assert get(program, f"/jobs/{job}")["steps"] == [
        {"name": "fetch_token", "result": "********"},
        {"name": "cut", "result": "reel"},
    ]


def test_health_masks_secrets(viewer: Browser, site: Site, queue: JobQueue, connection: Connection[Any]) -> None:
    for error in (LEAKY_ERROR, "x" * 160 + LEAKY_ERROR):
        connection.execute(
            "update jobs set crashes = 9, last_error = %s where id = %s", [error, queue.enqueue("films")]
        )
    findings = get(viewer, "/health")["findings"]
    (crashing,) = [each for each in findings if each["name"] == "crashing_jobs"]
    assert crashing["detail"].count("://ada:****") == 2
    assert "hush" not in json.dumps(findings)
    assert "hush" not in site.signed_in(VIEWER).get("/health").text
