"""The graph of a workflow in the live updates of its page, and what it costs the database."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
from psycopg import Connection

from tests.support.graphs import CountedGraphs, fan, insert_workflow
from treadle import Treadle
from treadle.web.dashboard.pages.live import details, jobs
from treadle.web.dashboard.pages.live.jobs import JobPage, JobUpdate, LiveJobs
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.words.graph import Graph


def follow(app: Treadle, monkeypatch: pytest.MonkeyPatch, body: Callable[[LiveJobs], Any]) -> None:
    monkeypatch.setattr(jobs, "JOB_SECONDS", 0.02)
    monkeypatch.setattr(details, "GRAPH_SECONDS", 0.04)

    async def both() -> None:
        try:
            async with asyncio.timeout(60):
                await body(LiveJobs(app, Readings()))
        finally:
            await app.database.aclose()

    asyncio.run(both())


def rounds(live: LiveJobs) -> int:
    topic = live._readings.topics.get(jobs.TOPIC)
    return topic.rounds if topic else 0


def test_an_open_page_gets_a_graph_only_when_something_has_changed(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow, ids = insert_workflow(connection, fan(3), status="running")
    counted = CountedGraphs(app)

    async def body(live: LiveJobs) -> None:
        async with aclosing(live.follow(JobPage(workflow, 0, 0))) as updates:
            first = await anext(updates)
            assert isinstance(first, JobUpdate)
            assert isinstance(first.graph, Graph)
            while counted.graphs() < 4:
                update = await anext(updates)
                assert isinstance(update, JobUpdate)
                assert update.graph is None
            connection.execute("update jobs set status = 'completed', finished_at = now() where id = %s", [ids[0]])
            while not (isinstance(update := await anext(updates), JobUpdate) and update.graph):
                pass
            assert update.graph.nodes[0].status == "completed"
            assert update.graph.after == first.graph.after
            assert counted.edges() == 1, "what jobs wait for does not change"

    follow(app, monkeypatch, body)


def test_many_pages_of_one_workflow_cost_as_much_as_one(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow, _ = insert_workflow(connection, fan(3), status="running")
    counted = CountedGraphs(app)

    async def body(live: LiveJobs) -> None:
        async def read() -> None:
            async with aclosing(live.follow(JobPage(workflow, 0, 0))) as updates:
                while rounds(live) < 40:
                    await anext(updates)

        await asyncio.gather(*(read() for _ in range(20)))
        assert counted.graphs() <= 41

    follow(app, monkeypatch, body)


def test_a_large_graph_is_read_less_often(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(details, "JOBS_PER_SECOND", 0.001)
    workflow, _ = insert_workflow(connection, fan(3), status="running")
    counted = CountedGraphs(app)

    async def body(live: LiveJobs) -> None:
        async with aclosing(live.follow(JobPage(workflow, 0, 0))) as updates:
            for _ in range(10):
                await anext(updates)
        assert counted.graphs() == 1

    follow(app, monkeypatch, body)


def test_a_slow_graph_does_not_stop_other_updates(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow, _ = insert_workflow(connection, fan(3), status="running")
    counted = CountedGraphs(app)
    counted.slow = True

    async def body(live: LiveJobs) -> None:
        async with aclosing(live.follow(JobPage(workflow, 0, 0))) as updates:
            for _ in range(3):
                update = await anext(updates)
                assert isinstance(update, JobUpdate)
                assert update.graph is None

    follow(app, monkeypatch, body)
