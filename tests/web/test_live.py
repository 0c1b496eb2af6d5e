"""The live updates of open pages, and what they cost the database."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import httpx
import psycopg
import pytest
from psycopg import Connection

from tests.support.web import Server, first, messages, take
from treadle import JobQueue, Treadle
from treadle.db.query import Query
from treadle.web.dashboard.pages.live import details, jobs, readings
from treadle.web.dashboard.pages.live.jobs import Deleted, JobPage, JobUpdate, LiveJobs
from treadle.web.dashboard.pages.live.readings import MAX_UNREAD, Readings, Unavailable
from treadle.words.errors import TooSlow


class Counted:
    """Counts the queries of an application, and can make them fail."""

    def __init__(self, app: Treadle) -> None:
        self.texts: list[str] = []
        self.error: Exception | None = None
        self._look = app.database.transport.aread_together
        app.database.transport.aread_together = self.aread_together  # type: ignore[method-assign]

    async def aread_together(self, queries: Sequence[Query[Any]], seconds: float = 3.0) -> Any:
        self.texts += [query.text for query in queries]
        if self.error is not None:
            raise self.error
        return await self._look(queries, seconds)


@pytest.fixture
def counted(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> Counted:
    monkeypatch.setattr(jobs, "JOB_SECONDS", 0.05)
    monkeypatch.setattr(readings, "SECONDS", 0.05)
    monkeypatch.setattr(readings, "RETRY_SECONDS", 0.05)
    # On a busy machine, the reasons of jobs would be read meanwhile.
    monkeypatch.setattr(details, "REASON_SECONDS", 3600.0)
    return Counted(app)


def run(app: Treadle, body: Callable[[LiveJobs], Any]) -> None:
    async def both() -> None:
        try:
            async with asyncio.timeout(60):
                await body(LiveJobs(app, Readings()))
        finally:
            await app.database.aclose()

    asyncio.run(both())


def running(queue: JobQueue, number: int) -> list[UUID]:
    queue.enqueue_many("films", [{}] * number)
    jobs = queue.claim(["films"], number)
    for job in jobs:
        queue.start(job)
    return [job.id for job in jobs]


def rounds(live: LiveJobs) -> int:
    return live._readings.topics[jobs.TOPIC].rounds


def test_a_hundred_pages_of_jobs_cost_as_much_as_one(app: Treadle, queue: JobQueue, counted: Counted) -> None:
    ids = running(queue, 25)

    async def body(live: LiveJobs) -> None:
        async with AsyncExitStack() as stack:
            await asyncio.gather(*(first(stack, live.follow(JobPage(ids[n % 25], 0, 0))) for n in range(75)))
            begun, before = rounds(live), len(counted.texts)
            while rounds(live) < begun + 20:
                await asyncio.sleep(0.001)
            # Each round: jobs and log lines.
            assert len(counted.texts) - before <= (rounds(live) - begun) * 2 + 4

    run(app, body)


def test_no_queries_without_open_pages(app: Treadle, queue: JobQueue, counted: Counted) -> None:
    (job,) = running(queue, 1)

    async def body(live: LiveJobs) -> None:
        async with AsyncExitStack() as stack:
            await first(stack, live.follow(JobPage(job, 0, 0)))
        while live._readings._tasks:
            await asyncio.sleep(0.01)
        before = len(counted.texts)
        await asyncio.sleep(0.3)
        assert len(counted.texts) == before
        # It starts again with the next page.
        async with AsyncExitStack() as stack:
            await first(stack, live.follow(JobPage(job, 0, 0)))

    run(app, body)


def test_updates_end_when_the_job_has_finished(app: Treadle, queue: JobQueue, counted: Counted) -> None:
    (job,) = running(queue, 1)
    queue.complete(job)

    async def body(live: LiveJobs) -> None:
        updates = [each async for each in live.follow(JobPage(job, 0, 0))]
        assert [type(each) for each in updates] == [JobUpdate]
        assert not live._readings.topics

    run(app, body)


def test_each_page_receives_only_new_events_and_log_lines(
    app: Treadle, queue: JobQueue, connection: Connection[Any], counted: Counted
) -> None:
    (job,) = running(queue, 1)
    for number in range(1, 4):
        queue.event(job, "reel", number=number)
        connection.execute("insert into logs values (%s, %s, 1, 1, 1, now(), 20, 'films', 'cut')", (job, number))

    async def body(live: LiveJobs) -> None:
        async with AsyncExitStack() as stack:
            behind, ahead = live.follow(JobPage(job, 0, 2)), live.follow(JobPage(job, 2, 0))
            one, other = await asyncio.gather(first(stack, behind), first(stack, ahead))
            assert isinstance(one, JobUpdate)
            assert isinstance(other, JobUpdate)
            assert ([each.number for each in one.events], [each.number for each in one.logs]) == ([1, 2, 3], [3])
            assert ([each.number for each in other.events], [each.number for each in other.logs]) == ([3], [1, 2, 3])
            assert one.cursor == other.cursor == "3.3"
            later = await anext(behind)
            assert isinstance(later, JobUpdate)
            assert not later.events
            assert not later.logs

    run(app, body)


def test_a_deleted_job(app: Treadle, queue: JobQueue, connection: Connection[Any], counted: Counted) -> None:
    (job,) = running(queue, 1)
    connection.execute("delete from jobs")

    async def body(live: LiveJobs) -> None:
        assert [each async for each in live.follow(JobPage(job, 0, 0))] == [Deleted()]

    run(app, body)


@pytest.mark.parametrize("error", [TooSlow("slow"), psycopg.OperationalError("gone")])
def test_pages_are_notified_of_a_database_failure_and_recovery(
    app: Treadle, queue: JobQueue, counted: Counted, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    (job,) = running(queue, 1)

    async def body(live: LiveJobs) -> None:
        async with AsyncExitStack() as stack:
            page = live.follow(JobPage(job, 0, 0))
            await first(stack, page)
            counted.error = error
            for _ in range(3):  # once per retry
                while not isinstance(await anext(page), Unavailable):
                    pass
            counted.error = None
            while not isinstance(await anext(page), JobUpdate):
                pass

    with caplog.at_level(logging.WARNING, "treadle"):
        run(app, body)
    assert len([each for each in caplog.records if "cannot update open pages" in each.message]) == 1


def test_a_page_that_does_not_keep_up_is_disconnected(app: Treadle, queue: JobQueue, counted: Counted) -> None:
    (job,) = running(queue, 1)

    async def body(live: LiveJobs) -> None:
        async with AsyncExitStack() as stack:
            slow = live.follow(JobPage(job, 0, 0))
            await first(stack, slow)
            while rounds(live) < MAX_UNREAD + 5:
                await asyncio.sleep(0.01)
            assert [each async for each in slow] == []

    run(app, body)


def test_the_overview_stream_sends_only_changed_regions(dashboard: Server, queue: JobQueue) -> None:
    with httpx.stream("GET", f"{dashboard.url}/live/overview", timeout=60) as response:
        updates = messages(response)
        everything = next(updates)
        regions = {"verdict", "now", "charts", "pauses", "slots", "running", "lanes", "totals"}
        assert set(everything.data["html"]) == regions
        queue.enqueue("films", {})
        while "lanes" not in (update := next(updates)).data["html"]:
            pass
        assert "films" in update.data["html"]["lanes"]
        assert "slots" not in update.data["html"]


def test_a_job_stream_continues_after_a_reconnect(dashboard: Server, queue: JobQueue) -> None:
    (job,) = running(queue, 1)
    queue.event(job, "first")
    queue.event(job, "second", password="xyzzy")  # noqa: S106
    (update,) = take(dashboard, f"/live/jobs/{job}?after=0.0", 1, **{"last-event-id": "1.0"})
    assert update.id == "2.0"
    assert "second" in update.data["append"]["events"]
    assert "first" not in update.data["append"]["events"]
    assert "xyzzy" not in update.data["append"]["events"]
