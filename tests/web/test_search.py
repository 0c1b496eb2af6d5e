"""Searches in the pages and the API."""

import asyncio
import re
from html import unescape
from typing import Any

import pytest
from psycopg import Connection

from tests.support.dashboards import OPERATOR, VIEWER, Browser, Site
from treadle import JobQueue, Treadle
from treadle.db.queries import listing as listing_queries
from treadle.db.query import Query
from treadle.web.dashboard.searches import AT_ONCE, Searches
from treadle.web.dashboard.security.access import Role
from treadle.words.listing import JobFilter

MATCHES = 111
HOSTILE = [
    "'; drop table jobs; --", "%", "_", "\\", '"', "{", "(", "[a-z]+", ".*", "😀", "\u202e", "<script>", "$1", ":x",
    "%s", "%(x)s",
]  # fmt: skip


@pytest.fixture
def program(site: Site) -> Browser:
    return site.program(OPERATOR)


def get(browser: Browser, **params: Any) -> Any:
    answer = browser.send("GET", "/api/jobs", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def read_page(browser: Browser, path: str, status: int = 200) -> str:
    answer = browser.send("GET", path, headers={"accept": "text/html"})
    assert answer.status_code == status, answer.text
    return unescape(answer.text)


def scatter(connection: Connection[Any], count: int, matches: int = MATCHES) -> None:
    """Completed jobs, of which some have the order ORD-1999."""
    connection.execute(
        """insert into jobs (job_type, status, finished_at, data)
        select 'films', 'completed', now() + n * interval '1 millisecond',
            jsonb_build_object('order', case when n %% %(each)s = 0 then 'ORD-1999' else 'ORD-X' || n end)
        from generate_series(1, %(count)s) as n""",
        {"count": count, "each": count // matches},
    )


@pytest.mark.parametrize("status", [None, "completed"])
@pytest.mark.parametrize("given", [{"search": "ord-1999"}, {"where": 'data.order = "ORD-1999"'}])
def test_all_matches_are_found(
    program: Browser,
    connection: Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    status: str | None,
    given: dict[str, str],
) -> None:
    monkeypatch.setattr(listing_queries, "EXAMINED_LIMIT", 400)
    scatter(connection, MATCHES * 20)
    found: set[str] = set()
    place = None
    for _ in range(100):
        params = {**given, "status": status, "after": place}
        got = get(program, **{name: value for name, value in params.items() if value})
        found |= {job["id"] for job in got["jobs"]}
        place = got["next"]
        if place is None:
            break
        assert got["reached"]
    assert len(found) == MATCHES


def test_without_scripts_a_link_continues_the_search(
    operator: Browser, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing_queries, "EXAMINED_LIMIT", 400)
    scatter(connection, MATCHES * 20)
    connection.execute("vacuum analyze jobs")
    path: str | None = "/jobs?search=ord-1999"
    found: set[str] = set()
    searched = []
    while path:
        page = read_page(operator, path)
        found |= set(re.findall(r'name="ids" value="([^"]+)"', page))
        searched += re.findall(r"Searched ([\d,]+) of about ([\d,]+) jobs, back to", page)
        link = re.search(r'rel="next" href="([^"]*)">Continue searching', page)
        path = link[1] if link else None
    assert len(found) == MATCHES
    assert searched[:3] == [("400", "2,220"), ("800", "2,220"), ("1,200", "2,220")]
    assert "Searched all jobs." in page


def test_a_time_range_is_in_the_address(operator: Browser, program: Browser, queue: JobQueue) -> None:
    job = queue.enqueue("films")
    for since, until, expected in (("1h", None, 1), ("2020-01-01", "2021-01-01T00:00Z", 0), ("1600000000", None, 1)):
        given = {"since": since, **({"until": until} if until else {})}
        assert len(get(program, **given)["jobs"]) == expected
        page = read_page(operator, "/jobs?" + "&".join(f"{name}={value}" for name, value in given.items()))
        assert (str(job) in page) == bool(expected)
        assert f'name="since" value="{since}"' in page
        assert "Enqueued since" in page
    assert "Finished since" in read_page(operator, "/jobs?status=failed&since=15m")
    assert "Since must be a time such as" in read_page(operator, "/jobs?since=yesterday", 400)


def test_a_bulk_change_of_a_time_range_needs_a_status(operator: Browser, queue: JobQueue) -> None:
    queue.enqueue("films")
    assert "give a status as well" in read_page(operator, "/bulk?action=cancel&all=1&since=1h", 400)
    page = read_page(operator, "/bulk?action=cancel&all=1&since=1h&status=pending")
    assert "Cancel 1 job" in page
    assert re.search(r'name="since" value="20\d\d-\d\d-\d\dT[^"]*\+00:00"', page), "the time does not move on"
    form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page))
    assert operator.post("/bulk", form, accept="application/json").json()["done"] == 1


@pytest.mark.parametrize("where", ['data.order = "ORD-7"', "data.order exists"])
def test_bulk_changes_use_the_payload_condition(
    operator: Browser, program: Browser, queue: JobQueue, connection: Connection[Any], where: str
) -> None:
    queue.enqueue_many("films", [{"order": "ORD-7"}, {"other": 1}])
    body = {"action": "cancel", "filter": {"where": where}}
    assert program.send("POST", "/api/bulk", json=body).json()["done"] == 1
    assert connection.execute("select count(*) from jobs where status = 'cancelled'").fetchone() == (1,)
    assert program.send("POST", "/api/bulk", json={"action": "cancel", "filter": {"where": "x"}}).status_code == 400
    queue.enqueue_many("films", [{"order": "ORD-7"}])
    form = {"action": "cancel", "where": where}
    assert operator.post("/bulk", form, accept="application/json").json()["done"] == 1


def test_the_page_shows_how_to_create_an_index(operator: Browser, connection: Connection[Any]) -> None:
    page = read_page(operator, "/jobs?where=data.order+%3D+1")
    statement = re.search("create index concurrently on treadle.jobs .*?;", page)
    assert statement
    connection.execute(statement[0].encode())
    try:
        assert "create index" not in read_page(operator, "/jobs?where=data.order+%3D+1")
        assert "create index" not in read_page(operator, "/jobs?where=data.x+%3D+1+and+data.order+%3D+1")
    finally:
        connection.execute("drop index jobs_jsonb_hash_extended_id_idx")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_only_texts(operator: Browser, program: Browser, queue: JobQueue, text: str) -> None:
    made = queue.enqueue("films", {"x": text, f"k{text}": 1})
    queue.enqueue("films", {"x": "other"})
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    found = [job["id"] for job in get(program, search=quoted)["jobs"]]
    assert found == ([str(made)] if text != "\u202e" or found else [])
    assert [job["id"] for job in get(program, where=f"data.x = {quoted}")["jobs"]] == [str(made)]
    key = '"k' + quoted[1:]
    assert [job["id"] for job in get(program, where=f"data.{key} = 1")["jobs"]] == [str(made)]
    for name in ("since", "until", "where", "after"):
        answer = program.send("GET", "/api/jobs", params={name: text})
        assert answer.status_code in (400, 422), (name, answer.text)
        answer = operator.send("GET", "/jobs", params={name: text}, headers={"accept": "text/html"})
        assert answer.status_code == 400
        assert "<script>" not in answer.text
    for name in ("searched", "of"):
        assert operator.send("GET", "/jobs", params={name: text}).status_code == 200


@pytest.mark.parametrize("name", ["search", "since", "where"])
def test_huge_values_are_refused(operator: Browser, program: Browser, name: str) -> None:
    assert program.send("GET", "/api/jobs", params={name: "1" * 5000}).status_code in (400, 422)
    assert operator.send("GET", "/jobs", params={name: "1" * 5000}).status_code == 400


def test_a_job_is_found_by_digits_of_its_id(operator: Browser, program: Browser, site: Site, queue: JobQueue) -> None:
    job = queue.enqueue("films")
    for digits in (job.hex[-8:], job.hex[-4:], job.hex[:12]):
        answer = operator.send("GET", f"/jobs/{digits}")
        assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{job}")
        for path in ("", "/why", "/graph"):
            assert program.send("GET", f"/api/jobs/{digits}{path}").status_code == 200
    assert program.send("POST", f"/api/jobs/{job.hex[-8:]}/cancel").json()["id"] == str(job)
    assert program.send("GET", "/api/jobs/00000000").status_code == 404
    assert program.send("GET", "/api/jobs/nonsense").status_code == 400
    assert site.program(VIEWER).send("GET", f"/api/jobs/{job.hex[-8:]}").status_code == 200
    assert str(job) in read_page(operator, f"/jobs?search={job.hex[-8:]}")


def test_names_are_suggested(operator: Browser, queue: JobQueue) -> None:
    queue.enqueue("films", queue='"slow"')
    page = operator.send("GET", "/jobs").text
    assert '<datalist id="type-names"><option value="films"></datalist>' in page
    assert '<option value="&#34;slow&#34;">' in page


def test_a_finished_job_has_no_due_time(operator: Browser, queue: JobQueue, connection: Connection[Any]) -> None:
    job = queue.enqueue("films", delay="1h")
    assert "<dt>Due</dt>" in read_page(operator, f"/jobs/{job}")
    for status in ("failed", "cancelled", "completed"):
        connection.execute("update jobs set status = %s, finished_at = now() where id = %s", [status, job])
        for path in (f"/jobs/{job}", "/jobs"):
            page = read_page(operator, path)
            assert "<dt>Due</dt>" not in page
            assert "<dt>Run at</dt>" not in page
            assert "due <time" not in page


def test_searches_take_turns(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many visitors search, few of their queries run at once."""
    running, most = 0, 0

    async def aread(query: Query[Any], seconds: float = 0) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    monkeypatch.setattr(app.database, "aread", aread)

    async def search(**filters: str) -> None:
        searches = Searches()
        job_filter = JobFilter(**filters)  # type: ignore[arg-type]
        await asyncio.gather(*(searches.find(app.database, Role.OPERATOR, job_filter, None, 50) for _ in range(20)))

    asyncio.run(search(search="x"))
    assert most == AT_ONCE
    asyncio.run(search(status="failed"))
    assert most == 20, "other lists do not wait"
