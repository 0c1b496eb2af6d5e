"""The graph of a workflow on its page, in live updates and in the API."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.support.dashboards import OPERATOR, VIEWER, Browser, Site
from tests.support.flags import Flag
from tests.support.graphs import CountedGraphs, fan, insert_workflow, tangle
from tests.support.hostile import MARK, TEXTS
from tests.web.test_escaping import Markup
from treadle import JobQueue, Retries, Treadle, Workflow, chain, ok_to_fail
from treadle.operations.graph import get_graph


@pytest.fixture
def viewer(site: Site) -> Browser:
    return site.signed_in(VIEWER)


def get(browser: Browser, path: str) -> str:
    answer = browser.get(path)
    assert answer.status_code == 200, answer.text
    return re.sub(r"\s+", " ", answer.text)


def graph_of(browser: Browser, workflow: UUID) -> dict[str, Any]:
    answer = browser.get(f"/api/jobs/{workflow}/graph")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


class Shop:
    def __init__(self, app: Treadle) -> None:
        self.app = app

        @app.job
        async def pay(order: int) -> str:
            return "receipt"

        @app.job
        async def pack(order: int) -> None: ...

        @app.job(retry=Retries(0))
        async def book(order: int) -> None:
            raise ConnectionError("no answer")

        @app.job
        async def ship(order: int, receipt: str) -> None: ...

        flow = Workflow("order of Grace")
        paid = flow.add(pay.call(7), name="payment")
        packed = flow.add(pack.call(7), name="packing")
        booked = flow.add(book.call(7), after=packed, name="courier")
        flow.add(ship.call(7, paid.output), after=ok_to_fail(booked), name="shipment")
        self.handle = flow.enqueue()
        self.pack = pack

    def run(self) -> None:
        self.app.run_worker(drain=True, concurrency=1)


@pytest.fixture
def shop(url: str) -> Iterator[Shop]:
    """An application of its own: the site uses the other one in its own event loop."""
    with closing(Treadle(url)) as app:
        yield Shop(app)


def test_the_page_of_a_workflow_draws_its_jobs(operator: Browser, shop: Shop) -> None:
    page = get(operator, f"/jobs/{shop.handle.id}")
    assert "<h1>order of Grace" in page
    assert 'aria-label="payment, pay, pending"' in page
    assert 'aria-label="shipment, ship, blocked"' in page
    assert page.count('class="connection"') == 3
    assert "Critical path" not in page
    shop.run()
    page = get(operator, f"/jobs/{shop.handle.id}")
    assert "1 failed</span>" in page
    assert "3 completed</span>" in page
    assert re.search(r'aria-label="courier, book, failed, \d+ms', page)
    assert re.search(r"Critical path: \S+ in [23] jobs", page)
    for step in shop.handle.steps.values():
        assert f'<a id="node-{step.id}" href="/jobs/{step.id}"' in page
        assert f'<tr id="member-{step.id}">' in page


def test_the_page_of_a_job_names_its_workflow_and_the_jobs_around_it(operator: Browser, shop: Shop) -> None:
    steps = shop.handle.steps
    page = get(operator, f"/jobs/{steps['shipment'].id}")
    assert f'Step “shipment” of the workflow <a href="/jobs/{shop.handle.id}">order of Grace' in page
    waits = page.partition("Waits for")[2].partition("</section>")[0]
    assert f'<a href="/jobs/{steps["payment"].id}">payment' in waits
    assert f'<a href="/jobs/{steps["courier"].id}">courier' in waits
    assert "Jobs after it" not in page
    page = get(operator, f"/jobs/{steps['packing'].id}")
    assert f'<a href="/jobs/{steps["courier"].id}">courier' in page.partition("Jobs after it")[2]
    assert "Waits for</h2>" not in page


def test_only_some_of_many_jobs_around_a_job_are_listed(operator: Browser, connection: Connection[Any]) -> None:
    _, ids = insert_workflow(connection, fan(30))
    connection.execute("update jobs set status = 'running', finished_at = null where id = %s", [ids[30]])
    page = get(operator, f"/jobs/{ids[-1]}")
    waited = page.partition("Waited for")[2].partition("</section>")[0]
    assert waited.count("<li>") == 20
    assert waited.index("running") < waited.index("completed"), "those that have not ended come first"
    assert "and more" in waited
    assert page.count("of the workflow") == 1
    connection.execute("delete from jobs where id = %s", [ids[1]])
    assert "deleted" in get(operator, f"/jobs/{ids[0]}").partition("Jobs after it")[2]


def test_a_job_outside_of_the_workflow_that_it_waits_for(operator: Browser, shop: Shop) -> None:
    other = shop.pack.enqueue(9)
    flow = Workflow("second")
    flow.add(shop.pack.call(8), after=other)
    handle = flow.enqueue()
    page = get(operator, f"/jobs/{handle.id}")
    assert f'<a id="node-{other.id}"' in page
    assert "not a part of this workflow" in page
    assert "1 job: " in page
    assert f'id="member-{other.id}"' not in page
    outside = [each for each in graph_of(operator, handle.id)["nodes"] if each["outside"]]
    assert [each["id"] for each in outside] == [str(other.id)]


def test_a_nested_workflow_links_to_its_page(operator: Browser, viewer: Browser, connection: Connection[Any]) -> None:
    inner, _ = insert_workflow(connection, [()], title="inner order of Grace")
    workflow, _ = insert_workflow(connection, [()])
    connection.execute(
        "insert into dependencies (job_id, after_id, needs) values (%s, %s, 'member')", [workflow, inner]
    )
    page = get(operator, f"/jobs/{workflow}")
    assert f'href="/jobs/{inner}"' in page
    assert "inner order of Grace" in page
    assert 'class="inner"' in page
    assert "Grace" not in get(viewer, f"/jobs/{workflow}")
    assert "Grace" not in viewer.get(f"/api/jobs/{workflow}/graph").text


def test_a_nested_workflow_comes_after_what_its_jobs_wait_for(operator: Browser, connection: Connection[Any]) -> None:
    """Also if they are nested more deeply."""
    workflow, ids = insert_workflow(connection, [(), ()])
    inner, _ = insert_workflow(connection, [()])
    innermost, jobs = insert_workflow(connection, [(), ()])
    for outer, member in ((workflow, inner), (inner, innermost)):
        connection.execute("insert into dependencies values (%s, %s, 'member')", [outer, member])
    connection.execute("insert into dependencies values (%s, %s, 'completed')", [jobs[1], ids[0]])
    connection.execute("insert into dependencies values (%s, %s, 'completed')", [ids[1], inner])
    nodes = {each["id"]: each for each in graph_of(operator, workflow)["nodes"]}
    assert [nodes[str(each)]["layer"] for each in (ids[0], inner, ids[1])] == [0, 1, 2]


def test_a_viewer_sees_no_more_than_on_the_page_of_a_job(viewer: Browser, operator: Browser, shop: Shop) -> None:
    """The name of a workflow is in its payload."""
    step = shop.handle.steps["payment"].id
    for path in (f"/jobs/{shop.handle.id}", f"/jobs/{step}", f"/api/jobs/{shop.handle.id}/graph"):
        assert "Grace" not in viewer.get(path).text
    assert f'of the workflow <a href="/jobs/{shop.handle.id}">' in get(viewer, f"/jobs/{step}")
    assert "payment" in get(viewer, f"/jobs/{shop.handle.id}")
    assert [each["label"] for each in graph_of(viewer, shop.handle.id)["nodes"]] == [
        each["label"] for each in graph_of(operator, shop.handle.id)["nodes"]
    ]


def test_a_job_that_was_not_needed_is_skipped(operator: Browser, connection: Connection[Any]) -> None:
    workflow, ids = insert_workflow(connection, [(), (0,)], names=["pay", "refund"])
    connection.execute(
        "update jobs set status = 'cancelled', flags = %s, started_at = null where id = %s", [Flag.SKIPPED, ids[1]]
    )
    assert 'aria-label="refund, step, skipped"' in get(operator, f"/jobs/{workflow}")
    assert graph_of(operator, workflow)["states"] == {"skipped": 1, "completed": 1}


def test_names_that_look_like_secrets_are_masked(operator: Browser, connection: Connection[Any]) -> None:
    workflow, _ = insert_workflow(connection, [()], names=["password=hunter2"])
    assert "hunter2" not in get(operator, f"/jobs/{workflow}")
    assert "hunter2" not in json.dumps(graph_of(operator, workflow))


def test_500_jobs_are_drawn_one_by_one(operator: Browser, connection: Connection[Any]) -> None:
    workflow, _ = insert_workflow(connection, tangle(500))
    page = operator.get(f"/jobs/{workflow}").text
    assert page.count('<a id="node-') == 500
    assert page.count('<tr id="member-') == 100
    assert "400 more jobs are not listed" in page


@pytest.mark.long
def test_10000_jobs_are_summarised_with_few_queries(
    operator: Browser, site: Site, app: Treadle, connection: Connection[Any]
) -> None:
    workflow, _ = insert_workflow(connection, fan(10_000), types=["split", *(["resize"] * 10_000), "publish"])
    counted = CountedGraphs(app)
    page = get(operator, f"/jobs/{workflow}")
    assert 'aria-label="10,000 jobs, resize: 10,000 completed' in page
    assert "Similar jobs are shown as one group." in page
    assert len(page) < 200_000
    assert len([text for text in counted.texts if "dependencies" in text]) <= 4
    found = graph_of(operator, workflow)
    assert [(each["label"], each["jobs"]) for each in found["nodes"]] == [
        ("split", 1),
        ("resize", 10_000),
        ("publish", 1),
    ]


def test_a_graph_with_too_many_connections_is_sampled(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow, _ = insert_workflow(connection, [*([()] * 20), *([tuple(range(20))] * 20)])
    whole = get_graph(app.database, workflow)
    assert (whole.sampled, sum(map(len, whole.after))) == (False, 400)
    monkeypatch.setattr("treadle.db.queries.workflows.MAX_EDGES", 300)
    monkeypatch.setattr("treadle.db.queries.workflows.MAX_SAMPLED", 400)
    sampled = get_graph(app.database, workflow)
    assert sampled.sampled
    assert [len(each) for each in sampled.after] == [0] * 20 + [10] * 20


def test_a_workflow_with_too_many_jobs_says_so(
    operator: Browser, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.db.queries.workflows.MAX_NODES", 10)
    workflow, _ = insert_workflow(connection, fan(30))
    assert "The workflow has more jobs than these." in get(operator, f"/jobs/{workflow}")
    assert graph_of(operator, workflow)["more"]


def test_hostile_names_are_escaped(operator: Browser, connection: Connection[Any]) -> None:
    """As jobs, in blocks, and in groups; the elements are the same as with harmless names."""
    for after, copies in (([()] * len(TEXTS), 1), (fan(8), 1), ([()] * 700, 50)):
        elements = []
        for texts in ([f"mark {nth}" for nth in range(len(TEXTS))], TEXTS):
            names = [texts[nth % len(texts)][:100] for nth in range(len(after))]
            types = [texts[nth // copies % len(texts)][:50] for nth in range(len(after))]
            workflow, ids = insert_workflow(connection, after, names, types, title=texts[0])
            pages = [operator.get(f"/jobs/{each}").text for each in (workflow, ids[0])]
            elements.append([Markup(page).elements for page in pages])
            assert MARK in pages[0]
            assert not re.search("[\x00-\x08\x0b-\x1f\u202e\u2066]", pages[0])
        assert elements[0] == elements[1]


def test_a_job_that_is_no_workflow_is_a_graph_of_one(operator: Browser, queue: JobQueue) -> None:
    job = queue.enqueue("films")
    (found,) = graph_of(operator, job)["nodes"]
    assert (found["id"], found["label"], found["states"]) == (str(job), "films", {"pending": 1})
    assert operator.get("/api/jobs/01a1df1a-9662-7b8e-8b29-d2293fbf8aaf/graph").status_code == 404


def test_the_api_has_the_critical_path(operator: Browser, connection: Connection[Any]) -> None:
    workflow, ids = insert_workflow(connection, [(), (0,), (0,), (1, 2)], names=["a", "b", "c", "d"])
    connection.execute("update jobs set finished_at = started_at + interval '9 seconds' where id = %s", [ids[2]])
    found = graph_of(operator, workflow)
    assert [each["label"] for each in found["nodes"] if each["critical"]] == ["a", "c", "d"]
    assert found["critical_seconds"] == pytest.approx(11.0)
    assert [each["after"] for each in found["nodes"]] == [[], [0], [0], [1, 2]]
    assert [each["layer"] for each in found["nodes"]] == [0, 1, 1, 2]


def test_a_graph_that_cannot_be_read_in_time_leaves_the_rest_of_the_page(
    operator: Browser, app: Treadle, connection: Connection[Any]
) -> None:
    workflow, _ = insert_workflow(connection, fan(3))
    CountedGraphs(app).slow = True
    assert "The jobs could not be read in time." in get(operator, f"/jobs/{workflow}")


def test_the_stream_of_a_workflow_carries_its_graph(site: Site, app: Treadle, shop: Shop) -> None:
    operator = site.signed_in(OPERATOR)
    chain(shop.pack.call(1)).enqueue()
    shop.run()
    text = operator.get(f"/live/jobs/{shop.handle.id}").text
    (data,) = [line for line in text.splitlines() if line.startswith("data: ") and "job-state" in line]
    assert "node-" in json.loads(data.removeprefix("data: "))["html"]["graph"]
