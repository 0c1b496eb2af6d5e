"""What open pages are told, and what it costs the database."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any, TypeVar
from uuid import UUID

import httpx
import psycopg
import pytest
from psycopg import Connection

from tests.support.web import Server, messages, take
from treadle import JobQueue, Treadle
from treadle.db.query import Query
from treadle.web.dashboard import live as module
from treadle.web.dashboard.live import Away, Glance, Gone, JobNews, JobPage, Live, OverviewPage
from treadle.words.errors import TooSlow

News = TypeVar("News")


class Counted:
    """An application whose looks are counted, and may fail."""

    def __init__(self, app: Treadle) -> None:
        self.texts: list[str] = []
        self.away: Exception | None = None
        self._look = app.database.aread_together
        app.database.aread_together = self.aread_together  # type: ignore[method-assign]

    async def aread_together(self, queries: Sequence[Query[Any]], seconds: float = 3.0) -> Any:
        self.texts += [query.text for query in queries]
        if self.away is not None:
            raise self.away
        return await self._look(queries, seconds)


@pytest.fixture
def counted(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> Counted:
    monkeypatch.setattr(module, "JOB_SECONDS", 0.05)
    monkeypatch.setattr(module, "AWAY_SECONDS", 0.05)
    return Counted(app)


def run(app: Treadle, body: Callable[[Live], Any]) -> None:
    async def both() -> None:
        try:
            async with asyncio.timeout(60):
                await body(Live(app))
        finally:
            await app.database.aclose()

    asyncio.run(both())


async def first(stack: AsyncExitStack, coming: AsyncGenerator[News, None]) -> News:
    """What it says first; it stays open."""
    await stack.enter_async_context(aclosing(coming))
    return await anext(coming)


def held(queue: JobQueue, number: int) -> list[UUID]:
    queue.enqueue_many("films", [{}] * number)
    jobs = queue.claim(["films"], number)
    for job in jobs:
        queue.start(job)
    return [job.id for job in jobs]


def test_a_hundred_pages_cost_what_one_costs(app: Treadle, queue: JobQueue, counted: Counted) -> None:
    ids = held(queue, 25)

    async def body(live: Live) -> None:
        async with AsyncExitStack() as stack:
            pages = [live.job(JobPage(ids[n % 25], 0, 0)) for n in range(75)]
            views = [live.overview(OverviewPage(window)) for window in (3600, 21_600, 86_400, 604_800) * 7]
            await asyncio.gather(*(first(stack, each) for each in pages), *(first(stack, each) for each in views))
            while live._turn % 2:
                await asyncio.sleep(0.001)
            turns, asked = live._turn, len(counted.texts)
            while live._turn < turns + 20:
                await asyncio.sleep(0.001)
            # A turn is a second: jobs and log lines each time; each other time the queue, its charts for three windows
            # more, and what runs.
            assert len(counted.texts) - asked <= 20 * 2 + 10 * (6 + 3 + 1) + 10

    run(app, body)


def test_nobody_looks_when_no_page_is_open(app: Treadle, queue: JobQueue, counted: Counted) -> None:
    (job,) = held(queue, 1)

    async def body(live: Live) -> None:
        async with AsyncExitStack() as stack:
            await first(stack, live.job(JobPage(job, 0, 0)))
            await first(stack, live.overview(OverviewPage(3600)))
        while live._task is not None:
            await asyncio.sleep(0.01)
        asked = len(counted.texts)
        await asyncio.sleep(0.3)
        assert len(counted.texts) == asked
        # And then again.
        async with AsyncExitStack() as stack:
            await first(stack, live.job(JobPage(job, 0, 0)))

    run(app, body)


def test_a_job_that_has_ended_is_not_looked_at_any_more(app: Treadle, queue: JobQueue, counted: Counted) -> None:
    (job,) = held(queue, 1)
    queue.complete(job)

    async def body(live: Live) -> None:
        told = [each async for each in live.job(JobPage(job, 0, 0))]
        assert [type(each) for each in told] == [JobNews]
        while live._task is not None:
            await asyncio.sleep(0.01)

    run(app, body)


def test_each_page_hears_what_it_has_not_heard(
    app: Treadle, queue: JobQueue, connection: Connection[Any], counted: Counted
) -> None:
    (job,) = held(queue, 1)
    for number in range(1, 4):
        queue.event(job, "reel", number=number)
        connection.execute("insert into logs values (%s, %s, 1, 1, 1, now(), 20, 'films', 'cut')", (job, number))

    async def body(live: Live) -> None:
        async with AsyncExitStack() as stack:
            behind, ahead = live.job(JobPage(job, 0, 2)), live.job(JobPage(job, 2, 0))
            one, other = await asyncio.gather(first(stack, behind), first(stack, ahead))
            assert isinstance(one, JobNews)
            assert isinstance(other, JobNews)
            assert ([each.number for each in one.events], [each.number for each in one.logs]) == ([1, 2, 3], [3])
            assert ([each.number for each in other.events], [each.number for each in other.logs]) == ([3], [1, 2, 3])
            assert one.cursor == other.cursor == "3.3"
            later = await anext(behind)
            assert isinstance(later, JobNews)
            assert not later.events
            assert not later.logs

    run(app, body)


def test_a_deleted_job_is_gone(app: Treadle, queue: JobQueue, connection: Connection[Any], counted: Counted) -> None:
    (job,) = held(queue, 1)
    connection.execute("delete from jobs")

    async def body(live: Live) -> None:
        assert [each async for each in live.job(JobPage(job, 0, 0))] == [Gone()]

    run(app, body)


@pytest.mark.parametrize("error", [TooSlow("slow"), psycopg.OperationalError("gone")])
def test_pages_hear_that_the_database_is_away_and_is_back(
    app: Treadle, queue: JobQueue, counted: Counted, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    (job,) = held(queue, 1)

    async def body(live: Live) -> None:
        async with AsyncExitStack() as stack:
            page, view = live.job(JobPage(job, 0, 0)), live.overview(OverviewPage(3600))
            await asyncio.gather(first(stack, page), first(stack, view))
            counted.away = error
            for hearing in (page, view):
                for _ in range(3):  # each time that it is tried again
                    while not isinstance(await anext(hearing), Away):
                        pass
            counted.away = None
            while not isinstance(await anext(page), JobNews):
                pass
            while not isinstance(await anext(view), Glance):
                pass

    with caplog.at_level(logging.WARNING, "treadle"):
        run(app, body)
    assert len([each for each in caplog.records if "cannot look" in each.message]) == 1


def test_a_page_that_does_not_keep_up_is_let_go(app: Treadle, queue: JobQueue, counted: Counted) -> None:
    (job,) = held(queue, 1)

    async def body(live: Live) -> None:
        async with AsyncExitStack() as stack:
            slow = live.job(JobPage(job, 0, 0))
            await first(stack, slow)
            while live._turn < module.PATIENCE + 5:
                await asyncio.sleep(0.01)
            assert [each async for each in slow] == []

    run(app, body)


def test_the_stream_of_the_overview_says_only_what_has_changed(dashboard: Server, queue: JobQueue) -> None:
    with httpx.stream("GET", f"{dashboard.url}/live/overview", timeout=60) as response:
        coming = messages(response)
        everything = next(coming)
        assert set(everything.data["html"]) == {"totals", "charts", "pauses", "running", "workers", "lanes"}
        queue.enqueue("films", {})
        while "lanes" not in (news := next(coming)).data["html"]:
            pass
        assert "films" in news.data["html"]["lanes"]
        assert "workers" not in news.data["html"]


def test_the_stream_of_a_job_goes_on_where_a_lost_one_ended(dashboard: Server, queue: JobQueue) -> None:
    (job,) = held(queue, 1)
    queue.event(job, "first")
    queue.event(job, "second", password="xyzzy")  # noqa: S106
    (told,) = take(dashboard, f"/live/jobs/{job}?after=0.0", 1, **{"last-event-id": "1.0"})
    assert told.id == "2.0"
    assert "second" in told.data["append"]["events"]
    assert "first" not in told.data["append"]["events"]
    assert "xyzzy" not in told.data["append"]["events"]
