"""Changes with the forms of the dashboard, each with its entry in the audit."""

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.dashboards import OPERATOR, VIEWER, Browser, Site
from treadle import JobQueue, Retries, Status


def redirect(answer: httpx.Response) -> tuple[str, dict[str, str]]:
    """The path that a form redirects to, and its query parameters."""
    assert answer.status_code == 303, answer.text
    split = urlsplit(answer.headers["location"])
    return split.path, {name: values[0] for name, values in parse_qs(split.query).items()}


def audit_entries(connection: Connection[Any]) -> list[tuple[Any, ...]]:
    return connection.execute("select actor, action, job_id, reason, details from audit order by id").fetchall()


def failed(queue: JobQueue, job_type: str = "films") -> uuid.UUID:
    job_id = queue.enqueue(job_type, retry=Retries(0))
    queue.fail(queue.claim([job_type])[0], "no")
    return job_id


def test_edit_and_copy_a_job(operator: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    job = failed(queue)
    given = {"arguments": '{"n": 2}', "retry": "on", "reason": "a typo"}
    assert redirect(operator.post(f"/jobs/{job}/edit", given)) == (f"/jobs/{job}", {"done": "edit"})
    assert (queue.get(job).status, queue.get(job).data) == (Status.PENDING, {"n": 2})
    act = str(uuid.uuid4())
    path, result = redirect(operator.post(f"/jobs/{job}/copy", {"arguments": '{"m": 3}', "act": act}))
    copy = uuid.UUID(path.removeprefix("/jobs/"))
    assert (result, queue.get(copy).data) == ({"done": "copy"}, {"n": 2, "m": 3})
    assert operator.post(f"/jobs/{job}/copy", {"act": act}).status_code == 409, "the form was submitted twice"
    wrong = operator.post(f"/jobs/{job}/edit", {"arguments": "[1]"})
    assert wrong.status_code == 400
    assert "The arguments must be a JSON object" in wrong.text
    assert [entry[1:4] for entry in audit_entries(connection)] == [("edit", job, "a typo"), ("copy", job, None)]
    page = operator.get(f"/jobs/{job}").text
    assert "Then retry the job" not in page, "it has not finished"
    assert f'action="/jobs/{job}/edit"' in page
    queue.complete(queue.claim(["films"], 1)[0])
    assert f'action="/jobs/{job}/edit"' not in operator.get(f"/jobs/{job}").text


def test_retry_a_job(operator: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    job = failed(queue)
    assert redirect(operator.post(f"/jobs/{job}/retry", {"reason": "the disk is back"})) == (
        f"/jobs/{job}",
        {"done": "retry"},
    )
    assert queue.get(job).status == Status.PENDING
    assert audit_entries(connection) == [("dashboard:Ada", "retry", job, "the disk is back", {"status": "failed"})]


def test_cancel_a_job_with_a_reason(operator: Browser, queue: JobQueue) -> None:
    job = queue.enqueue("films")
    operator.post(f"/jobs/{job}/cancel", {"reason": "twice in the list"})
    assert (queue.get(job).status, queue.get(job).last_error) == (Status.CANCELLED, "twice in the list")


def test_run_a_job_now(operator: Browser, queue: JobQueue) -> None:
    job = queue.enqueue("films", delay="1h")
    assert queue.claim(["films"]) == []
    operator.post(f"/jobs/{job}/run_now")
    assert [each.id for each in queue.claim(["films"])] == [job]


def test_send_a_signal(operator: Browser, site: Site, queue: JobQueue, connection: Connection[Any]) -> None:
    block = {"job_type": "signal", "signal": True, "part": 0, "data": [json.dumps({"signal": "<approved>"})]}
    row = connection.execute("select id from enqueue_workflow('article', %s)", [json.dumps([block])]).fetchone()
    assert row
    step = row[0]
    page = operator.get(f"/jobs/{step}").text
    assert "Send signal" in page
    assert "&lt;approved&gt;" in page
    assert "Send signal" not in site.signed_in(VIEWER).get(f"/jobs/{step}").text
    wrong = operator.post(f"/jobs/{step}/signal", {"name": "<approved>", "value": "{by: ann}"})
    assert wrong.status_code == 400
    assert "value must be JSON" in wrong.text
    assert operator.post(f"/jobs/{step}/signal", {"name": "other"}).status_code == 404
    answer = operator.post(f"/jobs/{step}/signal", {"name": "<approved>", "value": '{"by": "ann"}'})
    assert redirect(answer) == (f"/jobs/{step}", {"done": "signal"})
    assert queue.get(step).result == {"by": "ann"}
    assert audit_entries(connection) == [("dashboard:Ada", "signal", step, None, {"signal": "<approved>"})]
    assert redirect(operator.post(f"/jobs/{step}/signal", {"name": "<approved>"}))[1] == {"unfit": "signal"}
    assert "Signal sent" in operator.get(f"/jobs/{step}?done=signal").text


def test_change_the_priority_of_a_job(operator: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    job = queue.enqueue("films")
    operator.post(f"/jobs/{job}/priority", {"priority": "-5"})
    assert queue.get(job).priority == -5
    assert audit_entries(connection)[0][4] == {"status": "pending", "priority": 100, "to": -5}


@pytest.mark.parametrize("given", ["", "high", "1_0", "٣", "1.5", "99999999999", "2147483648"])
def test_a_priority_must_be_an_integer(operator: Browser, queue: JobQueue, given: str) -> None:
    job = queue.enqueue("films")
    answer = operator.post(f"/jobs/{job}/priority", {"priority": given}, accept="application/json")
    assert answer.status_code == 400
    assert "priority must be" in answer.json()["error"]
    assert queue.get(job).priority == 100


def test_deleting_a_job_redirects_to_the_list(operator: Browser, queue: JobQueue) -> None:
    job = queue.enqueue("films")
    assert redirect(operator.post(f"/jobs/{job}/delete", {"back": f"/jobs/{job}?tab=logs"})) == (
        "/jobs",
        {"done": "delete"},
    )
    assert redirect(operator.post(f"/jobs/{job}/delete")) == ("/jobs", {"missing": "delete"})
    assert queue.list().jobs == []


def test_a_failed_change_is_reported(operator: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    job = queue.enqueue("films")
    assert redirect(operator.post(f"/jobs/{job}/retry")) == (f"/jobs/{job}", {"unfit": "retry"})
    assert redirect(operator.post(f"/jobs/{uuid.uuid4()}/retry")) == ("/jobs", {"missing": "retry"})
    assert operator.post("/jobs/films/retry").status_code == 400
    assert audit_entries(connection) == []


def test_a_locked_job_is_reported_as_busy(operator: Browser, queue: JobQueue, connect: Connect) -> None:
    job, free = failed(queue), failed(queue)
    with connect(autocommit=False) as other:
        other.execute("select from jobs where id = %s for update", [job])
        assert redirect(operator.post(f"/jobs/{job}/retry")) == (f"/jobs/{job}", {"busy": "retry"})
        counts = redirect(operator.post("/bulk", {"action": "retry", "ids": [str(job), str(free)]}))[1]
    assert (counts["done"], counts["busy"]) == ("1", "1")


def test_change_selected_jobs(operator: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    jobs = [failed(queue), failed(queue), queue.enqueue("other")]
    form = {"action": "retry", "ids": [*map(str, jobs), str(uuid.uuid4())], "priority": "7"}
    counts = {"done": 2, "unfit": 1, "busy": 0, "missing": 1}
    assert operator.post("/bulk", form, accept="application/json").json() == counts | {"next": None}
    assert {job.priority for job in queue.list().jobs} == {100}
    assert [row[:3] for row in audit_entries(connection)] == [
        ("dashboard:Ada", "retry", job) for job in sorted(jobs[:2])
    ]
    path, parameters = redirect(operator.post("/bulk", form | {"back": "/jobs?status=failed&done=retry"}))
    assert (path, parameters) == (
        "/jobs",
        {"status": "failed", "bulk": "retry", "unfit": "3", "missing": "1"},
    )


def test_change_all_jobs_that_match_a_filter(operator: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    connection.execute(
        """insert into jobs (id, job_type, status, finished_at)
        select new_id(), case when n > 600 then 'other' else 'films' end, 'failed', now()
        from generate_series(1, 610) as n"""
    )
    form = {"action": "retry", "status": "failed", "type": "films"}
    first = operator.post("/bulk", form, accept="application/json").json()
    assert (first["done"], first["unfit"]) == (500, 0)
    assert queue.counts()[Status.PENDING] == 500
    second = operator.post("/bulk", form | {"after": first["next"]}, accept="application/json").json()
    assert second == {"done": 100, "unfit": 0, "busy": 0, "missing": 0, "next": None}
    assert {job.job_type for job in queue.list(status="failed").jobs} == {"other"}
    assert len(audit_entries(connection)) == 600
    typed = {"number": "610", "confirm": " 610 "}
    everything = {"action": "delete", "all": "yes", "status": "", **typed}
    assert redirect(operator.post("/bulk", everything))[1]["done"] == "500"


@pytest.mark.parametrize("typed", [{}, {"number": "2"}, {"number": "2", "confirm": "3"}, {"confirm": "2"}])
def test_to_delete_all_matching_jobs_their_number_must_be_typed(
    operator: Browser, queue: JobQueue, typed: dict[str, str]
) -> None:
    for _ in range(2):
        failed(queue)
    form = {"action": "delete", "status": "failed"}
    answer = operator.post("/bulk", form | typed, accept="application/json")
    assert answer.status_code == 400
    assert "type their number: expected" in answer.json()["error"]
    assert len(queue.list().jobs) == 2
    assert redirect(operator.post("/bulk", form | {"number": "2", "confirm": "2"}))[1]["done"] == "2"


@pytest.mark.parametrize("action", ["delete", "retry"])
def test_jobs_that_came_after_the_form_was_opened_are_not_changed(
    operator: Browser, queue: JobQueue, action: str
) -> None:
    old = failed(queue)
    opened = operator.get(f"/bulk?action={action}&all=1&status=failed").text
    form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', opened))
    new = failed(queue)
    assert redirect(operator.post("/bulk", form | {"confirm": "1"}))[1]["done"] == "1"
    assert [job.id for job in queue.list(status="failed").jobs] == [new]
    assert old != new


@pytest.mark.parametrize("name", ["counted_at", "at_most"])
def test_a_form_with_a_wrong_number_changes_nothing(operator: Browser, queue: JobQueue, name: str) -> None:
    failed(queue)
    form = {"action": "retry", "status": "failed", name: "-1"}
    answer = operator.post("/bulk", form, accept="application/json")
    assert (answer.status_code, answer.json()["error"]) == (
        400,
        f"{name} must be a number, got '-1'; open the form again",
    )
    assert len(queue.list(status="failed").jobs) == 1


def test_change_jobs_with_a_filter_without_matches(operator: Browser) -> None:
    assert redirect(operator.post("/bulk", {"action": "retry", "type": "films"})) == (
        "/jobs",
        {"bulk": "retry", "done": "0"},
    )


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({"action": "retry"}, "no jobs were selected"),
        ({"action": "retry", "status": "", "type": ""}, "no jobs were selected"),
        ({"action": "retry", "status": "broken"}, "status must be one of"),
        ({"action": "retry", "status": "failed", "after": "x"}, "after must be"),
        ({"ids": [str(uuid.uuid4())]}, "action must be one of"),
        ({"action": "explode", "ids": [str(uuid.uuid4())]}, "action must be one of"),
        ({"action": "retry", "ids": ["1; drop table jobs"]}, "expected the id of a job"),
        ({"action": "retry", "ids": [str(uuid.uuid4()) for _ in range(501)]}, "at most 500 jobs"),
    ],
)
def test_a_bulk_change_must_select_jobs(operator: Browser, form: dict[str, Any], sentence: str) -> None:
    answer = operator.post("/bulk", form, accept="application/json")
    assert answer.status_code == 400
    assert sentence in answer.json()["error"]


def test_pause_and_resume_a_type(operator: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("films")
    form = {"job_type": "films", "queue": "", "reason": "the mail is down"}
    assert redirect(operator.post("/pauses", form)) == ("/", {"done": "pause"})
    assert redirect(operator.post("/pauses", form | {"back": "/workers"})) == ("/workers", {"unfit": "pause"})
    assert queue.claim(["films"]) == []
    (pause,) = queue.pauses()
    assert (pause.job_type, pause.queue, pause.paused_by) == ("films", None, "dashboard:Ada")
    assert redirect(operator.post("/resumes", form)) == ("/", {"done": "resume"})
    assert redirect(operator.post("/resumes", form)) == ("/", {"unfit": "resume"})
    assert [row[:2] for row in audit_entries(connection)] == [("dashboard:Ada", "pause"), ("dashboard:Ada", "resume")]


def test_an_empty_form_does_not_pause_everything(operator: Browser, queue: JobQueue) -> None:
    assert operator.post("/pauses", {"job_type": "", "queue": ""}).status_code == 400
    assert operator.post("/pauses", {"job_type": "films", "everything": "yes"}).status_code == 400
    assert queue.pauses() == []
    assert redirect(operator.post("/pauses", {"everything": "yes"})) == ("/", {"done": "pause"})
    assert len(queue.pauses()) == 1


@pytest.mark.parametrize("name", ["x" * 51, "a\nb", "a\x00b"])
def test_a_pause_must_have_a_valid_name(operator: Browser, queue: JobQueue, name: str) -> None:
    assert operator.post("/pauses", {"job_type": name}).status_code == 400
    assert operator.post("/resumes", {"queue": name}).status_code == 400
    assert queue.pauses() == []


@pytest.mark.parametrize(
    "back",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example/",
        "\\\\evil.example",
        "/\t/evil.example",
        "/a\r\nset-cookie: a=b",
        "javascript:alert(1)",
        "jobs",
        "/../login",
        "/ä",
        "/" + "x" * 3000,
    ],
)
def test_redirects_stay_on_the_dashboard(operator: Browser, queue: JobQueue, back: str) -> None:
    job = queue.enqueue("films")
    assert redirect(operator.post(f"/jobs/{job}/cancel", {"back": back})) == (f"/jobs/{job}", {"done": "cancel"})


@pytest.fixture
def no_audit(connection: Connection[Any]) -> Iterator[None]:
    """Makes every write to the audit fail."""
    connection.execute(
        """create function public.refuse() returns trigger language plpgsql as
        $$begin raise exception 'the audit is full'; end$$;
        create trigger refuse before insert on audit execute function public.refuse()"""
    )
    yield
    connection.execute("drop function public.refuse() cascade")


@pytest.mark.usefixtures("no_audit")
@pytest.mark.parametrize("action", ["retry", "cancel", "delete", "run_now", "priority", "bulk"])
def test_no_change_without_its_audit_entry(operator: Browser, queue: JobQueue, action: str) -> None:
    job = failed(queue) if action in ("retry", "bulk") else queue.enqueue("films", delay="1h")
    before = queue.get(job)
    path = "/bulk" if action == "bulk" else f"/jobs/{job}/{action}"
    answer = operator.post(path, {"priority": "7", "action": "retry", "ids": [str(job)]})
    assert answer.status_code == 503
    assert "audit is full" not in answer.text
    assert queue.get(job) == before


@pytest.mark.usefixtures("no_audit")
def test_no_pause_without_its_audit_entry(operator: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    assert operator.post("/pauses", {"job_type": "films"}).status_code == 503
    assert queue.pauses() == []
    connection.execute("insert into pauses (job_type) values ('films')")
    assert operator.post("/resumes", {"job_type": "films"}).status_code == 503
    assert len(queue.pauses()) == 1


def test_a_bearer_token_needs_no_csrf_token(site: Site, queue: JobQueue, connection: Connection[Any]) -> None:
    job = failed(queue)
    program = site.program(OPERATOR)
    assert redirect(program.send("POST", f"/jobs/{job}/retry"))[1] == {"done": "retry"}
    assert audit_entries(connection)[0][0] == "dashboard:token (operator)"
    assert "set-cookie" not in program.send("GET", "/login").headers


def test_query_parameters_are_not_form_fields(operator: Browser, queue: JobQueue) -> None:
    job = queue.enqueue("films")
    assert operator.post(f"/jobs/{job}/priority?priority=7").status_code == 400
    assert operator.post(f"/bulk?action=cancel&ids={job}").status_code == 400
    assert queue.get(job).priority == 100


def test_change_the_concurrency_of_a_worker(operator: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    connection.execute("select register_worker('w <1>', '1 hour', '{films}', null, 50)")
    form = {"worker": "w <1>", "concurrency": "0", "reason": "slow"}
    assert "It was started with 50." in operator.send("GET", "/workers/concurrency", params={"worker": "w <1>"}).text
    assert redirect(operator.post("/workers/concurrency", form)) == ("/workers", {"done": "concurrency"})
    assert redirect(operator.post("/workers/concurrency", form)) == ("/workers", {"unfit": "concurrency"})
    page = operator.send("GET", "/workers", params={"done": "concurrency"}).text
    assert "Concurrency changed." in page
    assert '>0 <span class="muted">(started with 50)</span>' in page
    assert "0 running, 0 free" in operator.send("GET", "/").text
    assert redirect(operator.post("/workers/concurrency", form | {"reset": "1"})) == (
        "/workers",
        {"done": "concurrency"},
    )
    details = {"worker": "w <1>", "before": 50, "concurrency": 0}
    first, second = audit_entries(connection)
    assert first == ("dashboard:Ada", "concurrency", None, "slow", details)
    assert second[:2] == ("dashboard:Ada", "reset concurrency")


def test_a_worker_and_a_number_that_are_wrong_are_refused(
    operator: Browser, queue: JobQueue, connection: Connection[Any]
) -> None:
    connection.execute("select register_worker('w', '1 hour', '{films}', null, 50), heartbeat('client')")
    for number in ("", "many", "-1", "10001", "1e3", "9" * 30, "\u0663"):
        answer = operator.post("/workers/concurrency", {"worker": "w", "concurrency": number})
        assert (answer.status_code, "from 0 to 10,000" in answer.text) == (400, True), number
    for worker in ("nobody", "client"):
        assert operator.post("/workers/concurrency", {"worker": worker, "concurrency": "5"}).status_code == 404
        assert operator.send("GET", "/workers/concurrency", params={"worker": worker}).status_code == 404
    assert operator.post("/workers/concurrency", {"worker": "x" * 101, "concurrency": "5"}).status_code == 400
    assert audit_entries(connection) == []
