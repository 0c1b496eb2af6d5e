"""The audit page: one line for each act, however many jobs it changed; and forms that are carried out once."""

import re
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest
from psycopg import Connection

import treadle
from tests.conftest import Connect
from tests.support.buffers import buffers
from tests.support.dashboards import OPERATOR, VIEWER, Browser, Site
from tests.support.error_groups import count_now, fail
from tests.support.web import Server, messages
from tests.support.workers import one
from treadle import JobQueue, Retries, Treadle
from treadle.db.queries.operations import change_jobs, find_acts, find_audit
from treadle.operations.bulk import Change
from treadle.web.dashboard.pages.live import readings
from treadle.words.changes import AUDIT_ACTIONS, Action, AuditFilter
from treadle.words.listing import JobFilter


@pytest.fixture
def viewer(site: Site) -> Browser:
    return site.signed_in(VIEWER)


@pytest.fixture
def program(site: Site) -> Browser:
    """A program with the operator's token."""
    return site.program(OPERATOR)


def rows(operator: Browser, path: str = "/audit") -> list[str]:
    answer = operator.send("GET", path)
    assert answer.status_code == 200, answer.text
    return re.findall(r'<tr(?: id="act-\d+")?>\n<th scope="row">.*?</tr>', answer.text, re.DOTALL)


def test_a_change_of_many_jobs_is_one_line(operator: Browser, app: Treadle, queue: JobQueue) -> None:
    queue.enqueue_many("films", [{}] * 700)
    queue.enqueue_many("mail", [{}] * 500)
    *_, last = Change(app.database, JobFilter(status="pending"), Action.PRIORITY, "ada", "hurry", 7)
    assert last.done == 1200
    queue.cancel(queue.enqueue("other"))
    (line,) = rows(operator)
    assert "<summary>1,200 jobs</summary>" in line
    assert line.count('<a href="/jobs/') == 20
    link = re.search(r'href="(/audit\?act=[^"]*)">All of them', line)
    assert link
    assert len(rows(operator, link[1])) == 100
    # Paged.
    older = re.search(r'href="(/audit\?act=[^"]*)">Older', operator.send("GET", link[1]).text)
    assert older
    assert len(rows(operator, older[1].replace("&amp;", "&"))) == 100


def test_a_form_of_the_page_is_one_line_also_in_chunks(
    operator: Browser, queue: JobQueue, connection: Connection[Any]
) -> None:
    queue.enqueue_many("films", [{}] * 600)
    form = {"action": "cancel", "status": "pending", "act": str(uuid.uuid4())}
    first = operator.post("/bulk", form, accept="application/json").json()
    second = operator.post("/bulk", form | {"after": first["next"]}, accept="application/json").json()
    assert (first["done"], second["done"], second["next"]) == (500, 100, None)
    assert one(connection, "select count(*) from audit") == 600
    assert len(rows(operator)) == 1


def test_entries_of_earlier_versions_are_lines_of_their_own(operator: Browser, connection: Connection[Any]) -> None:
    connection.execute(
        "insert into audit (actor, action, job_id) select 'ada', 'retry', new_id() from generate_series(1, 3)"
    )
    assert len(rows(operator)) == 3


def test_acts_are_filtered(operator: Browser, app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    films = queue.enqueue_many("films", [{}] * 2)
    mail = queue.enqueue("mail")
    app.database.run(change_jobs(Action.CANCEL, [*films, mail], "Ada"))
    app.database.run(change_jobs(Action.RETRY, [mail], "bob"))
    connection.execute("select pause('films', null, 'bob')")
    connection.execute("update audit set at = '2030-05-05 12:00+00' where action = 'pause'")

    def found(**query: str) -> list[str]:
        return [
            re.findall(r"<strong>(.*?)</strong>", each)[0]
            for each in rows(operator, "/audit?" + "&".join(f"{name}={value}" for name, value in query.items()))
        ]

    assert found() == ["pause", "retry", "cancel"]
    assert found(actor="BO") == ["pause", "retry"]
    assert found(action="cancel") == ["cancel"]
    assert found(type="mail") == ["retry", "cancel"]  # the second one has jobs of both types
    assert found(type="films") == ["pause", "cancel"]
    assert found(since="2030-05-05T12:00") == ["pause"]
    assert found(until="2030-05-05T12:00") == ["retry", "cancel"]
    assert found(actor="eve") == []
    assert operator.send("GET", "/audit?since=yesterday").status_code == 400
    assert operator.send("GET", "/audit?act=x").status_code == 400


def test_the_api_has_acts_too(program: Browser, queue: JobQueue) -> None:
    jobs = [str(each) for each in queue.enqueue_many("films", [{}] * 30)]
    act = str(uuid.uuid4())
    order = {"action": "cancel", "ids": jobs, "act": act, "reason": "wrong film"}
    assert program.send("POST", "/api/bulk", json=order).status_code == 200
    answer = program.send("POST", "/api/bulk", json=order)
    assert (answer.status_code, "already made" in answer.json()["error"]) == (409, True)
    (found,) = program.send("GET", "/api/acts?job_type=films&actor=token").json()["acts"]
    assert (found["jobs"], len(found["examples"]), found["first"]["act"]) == (30, 20, act)
    assert len(program.send("GET", f"/api/audit?act={act}").json()["changes"]) == 30
    assert program.send("GET", "/api/acts?action=retry").json() == {"acts": [], "next": None}


def test_every_action_of_the_audit_can_be_chosen(
    operator: Browser, app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    """Of each function that writes to the audit, all that it writes."""
    first, second = queue.enqueue_many("films", [{}] * 2)
    for action, job in (("priority", first), ("cancel", first), ("retry", first), ("run_now", second)):
        connection.execute("update jobs set run_at = now() + interval '1 hour' where id = %s", [second])
        connection.execute(
            "select operate(%s, %s, 'ada', p_priority => %s)", [action, [job], 7 if action[0] == "p" else None]
        )
    connection.execute("select operate('cancel', %s, 'ada')", [[first]])
    connection.execute("select edit_job(%(job)s, '{\"n\": 1}'), copy_job(%(job)s)", {"job": first})
    connection.execute("select operate('delete', %s, 'ada')", [[first]])
    fail(queue, ["no"], "mail")
    count_now(app)
    for statement in (
        "select pause('films'), resume('films')",
        "select set_limit('few', 3, p_job_type => 'films'), reset_limit('few')",
        "select put_schedule('nightly', 'films', '0 3 * * *')",
        *(f"select operate_schedule('{each}', 'nightly')" for each in ("pause", "resume", "run", "delete")),
        "select mute_errors(id), mute_errors(id, false) from error_groups",
    ):
        connection.execute(statement)
    written = {row[0] for row in connection.execute("select distinct action from audit")}
    assert written == set(AUDIT_ACTIONS) - {"concurrency", "reset concurrency", "signal"}
    page = operator.get("/audit").text
    assert all(f'<option value="{each}">' in page for each in (*written, "concurrency", "reset concurrency", "signal"))
    assert "<strong>add or change schedule</strong>" in page
    assert ">put schedule<" not in page
    writers = {
        path.stem
        for path in (Path(treadle.__file__).parent / "sql/functions").rglob("*.sql")
        if "into treadle.audit" in path.read_text()
    }
    assert writers == {
        *("operate", "pause", "resume", "set_limit", "reset_limit", "put_schedule", "operate_schedule", "mute_errors"),
        *("set_concurrency", "send_signal", "edit_job", "copy_job"),
    }


def test_times_are_written_as_everywhere_else(operator: Browser, program: Browser, connection: Connection[Any]) -> None:
    connection.execute("select pause('films'), pause('mail')")
    connection.execute("update audit set at = now() - interval '3 hours' where job_type = 'films'")
    for since in ("2h", "7200s"):
        (found,) = program.send("GET", f"/api/acts?since={since}").json()["acts"]
        assert found["first"]["job_type"] == "mail"
        assert len(rows(operator, f"/audit?since={since}")) == 1
    answer = program.send("GET", "/api/acts?since=yesterday")
    assert answer.status_code == 400
    assert "since must be a time such as" in answer.json()["error"]


def test_the_list_is_live(dashboard: Server, queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "SECONDS", 0.1)
    page = httpx.get(f"{dashboard.url}/audit").text
    assert 'data-live="/live/audit"' in page
    assert "data-live" not in httpx.get(f"{dashboard.url}/audit?before=7").text
    with httpx.stream("GET", f"{dashboard.url}/live/audit?action=pause", timeout=60) as response:
        updates = messages(response)
        assert "No matching changes" in next(updates).data["html"]["audit"]
        queue.pause("films")
        changed = next(each for each in updates if each.data["html"])
    assert "<strong>pause</strong>" in changed.data["html"]["audit"]


# Once


def test_a_form_is_carried_out_once(operator: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    """The back button, or a double click: a job that was retried and has failed again is not retried again."""
    job = str(queue.enqueue("films", retry=Retries(0)))
    queue.fail(queue.claim(["films"])[0], "no")
    page = operator.send("GET", f"/bulk?action=retry&ids={job}").text
    act = re.search(r'name="act" value="([^"]*)"', page)
    assert act
    form = {"action": "retry", "ids": [job], "act": act[1]}
    assert operator.post("/bulk", form).status_code == 303
    queue.fail(queue.claim(["films"])[0], "no", final=True)
    answer = operator.post("/bulk", form)
    assert answer.status_code == 409
    assert "<h1>Nothing was changed</h1>" in answer.text
    assert queue.get(uuid.UUID(job)).status == "failed"
    assert one(connection, "select count(*) from audit") == 1
    # Another form.
    assert operator.post("/bulk", form | {"act": str(uuid.uuid4())}).status_code == 303
    assert operator.post("/bulk", form | {"act": "x"}).status_code == 400


def test_two_submissions_at_the_same_time_are_carried_out_once(
    app: Treadle, queue: JobQueue, connect: Connect, connection: Connection[Any]
) -> None:
    jobs, act = queue.enqueue_many("films", [{}] * 3), uuid.uuid4()
    with connect(autocommit=False) as other:
        other.execute("select * from operate('cancel', %s, 'ada', p_act => %s)", [jobs, act])
        done = app.database.run(change_jobs(Action.CANCEL, jobs, "ada", act=act))
        assert {each.outcome for each in done} == {"repeated"}
        other.commit()
    assert one(connection, "select count(*) from audit") == 3


def test_an_older_snapshot_cannot_carry_it_out_again(
    queue: JobQueue, connect: Connect, connection: Connection[Any]
) -> None:
    """It does not see the first one: the unique index refuses the second."""
    (first, second), act = queue.enqueue_many("films", [{}] * 2), uuid.uuid4()
    with connect(autocommit=False) as other:
        other.execute("set transaction isolation level repeatable read")
        other.execute("select from audit")
        connection.execute("select operate('cancel', %s, 'ada', p_act => %s)", [[first], act])
        with pytest.raises(Exception, match="idx_audit_acts"):
            other.execute("select operate('cancel', %s, 'ada', p_act => %s)", [[second], act])


def test_a_chunk_that_changes_nothing_does_not_hide_the_act(operator: Browser, app: Treadle, queue: JobQueue) -> None:
    act, job = uuid.uuid4(), queue.enqueue("films")
    nothing = app.database.run(change_jobs(Action.RETRY, [job], "ada", act=act))
    assert [each.outcome for each in nothing] == ["unfit"]
    app.database.run(change_jobs(Action.CANCEL, [job], "ada", act=act, continues=True))
    assert len(rows(operator)) == 1


# The cost


@pytest.mark.fresh_database
def test_the_list_of_acts_does_not_read_the_jobs_of_large_ones(connection: Connection[Any]) -> None:
    connection.execute("alter table audit set (autovacuum_enabled = off)")
    try:
        act = uuid.UUID(int=5)
        insert = """insert into audit (actor, action, job_id, job_type, act, begins)
            select 'ada', 'cancel', new_id(), 'films', %s, n = %s from generate_series(1, %s) as n"""
        connection.execute("set enable_seqscan = off")
        queries = find_acts(AuditFilter(), None, 50), find_audit(None, None, 101, act)
        costs = []
        for first, number in ((1, 15_000), (0, 60_000)):
            connection.execute(insert, [act, first, number])
            connection.execute("vacuum analyze audit")
            costs.append([buffers(connection, each.bound("treadle"), each.params) for each in queries])
        small, large = costs
        # The jobs are counted up to 10,001, and 101 are listed.
        assert large[0] < 1.5 * small[0] + 100, costs
        assert large[1] < 1.5 * small[1] + 100, costs
    finally:
        connection.execute("truncate audit")
        connection.execute("alter table audit reset (autovacuum_enabled)")


# Selected jobs


def test_selected_jobs_are_named_before_they_are_changed(operator: Browser, queue: JobQueue) -> None:
    jobs = [str(each) for each in queue.enqueue_many("films", [{}] * 25)]
    page = operator.send("GET", f"/bulk?action=delete&ids={'&ids='.join(jobs)}").text
    named = page[page.index('id="named"') : page.index("<form", page.index('id="named"'))]
    assert named.count("films <code>") == 20
    assert "and 5 more" in named
    assert 'name="confirm"' not in page
    few = operator.send("GET", f"/bulk?action=delete&ids={jobs[0]}").text
    assert few.count("films <code>") == 1
    assert "more</li>" not in few


def test_a_resume_is_confirmed(operator: Browser, viewer: Browser, connection: Connection[Any]) -> None:
    connection.execute("select pause('films', 'slow', 'ada', 'password=hunter2 broken')")
    overview = operator.send("GET", "/").text
    assert 'href="/resume?job_type=films&amp;queue=slow"' in overview
    page = operator.send("GET", "/resume?job_type=films&queue=slow").text
    assert "Paused by <strong>ada</strong>" in page
    assert "hunter2" not in page
    assert "It is not paused." in operator.send("GET", "/resume?job_type=films").text
    # As in the list of jobs.
    assert "Paused by <strong>ada</strong>" in operator.send("GET", "/resume?type=films&queue=slow").text
    assert "Resume nope" in operator.send("GET", "/resume?type=nope").text
    assert 'name="job_type" value="films"' in operator.send("GET", "/pause?type=films").text
    assert operator.send("GET", "/resume?type=films&job_type=mail").status_code == 400
    assert viewer.send("GET", "/resume?job_type=films&queue=slow").status_code == 403
