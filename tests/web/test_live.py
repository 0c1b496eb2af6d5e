"""The live updates of open pages, and what they cost the database."""

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
from treadle.db.patience import ON_SCREEN, current
from treadle.db.query import Query
from treadle.web.dashboard.pages.live import jobs, readings, shared
from treadle.web.dashboard.pages.live.jobs import Deleted, JobPage, JobUpdate, LiveJobs
from treadle.web.dashboard.pages.live.readings import MAX_UNREAD, Reading, Readings, Unavailable, summary_of
from treadle.web.dashboard.pages.live.shared import SharedReads
from treadle.words.errors import TableLocked, TooSlow

Update = TypeVar("Update")


class Counted:
    """Counts the queries of an application, and can make them fail."""

    def __init__(self, app: Treadle) -> None:
        self.texts: list[str] = []
        self.error: Exception | None = None
        self._look = app.database.aread_together
        app.database.aread_together = self.aread_together  # type: ignore[method-assign]

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
    return Counted(app)


def run(app: Treadle, body: Callable[[LiveJobs], Any]) -> None:
    async def both() -> None:
        try:
            async with asyncio.timeout(60):
                await body(LiveJobs(app, Readings()))
        finally:
            await app.database.aclose()

    asyncio.run(both())


async def first(stack: AsyncExitStack, updates: AsyncGenerator[Update, None]) -> Update:
    """The first update; the stream stays open."""
    await stack.enter_async_context(aclosing(updates))
    return await anext(updates)


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
            assert len(counted.texts) - before <= 20 * 2 + 4

    run(app, body)


def test_a_hundred_pages_that_show_the_same_are_read_and_rendered_once() -> None:
    read = rendered = 0

    async def value() -> int:
        nonlocal read
        read += 1
        return read

    def render(number: int) -> str:
        nonlocal rendered
        rendered += 1
        return f"{number}"

    async def body() -> None:
        shared = Readings()
        async with AsyncExitStack() as stack:
            pages = [shared.follow(("list", n % 2), value, 0.05) for n in range(100)]
            updates = await asyncio.gather(*(first(stack, each) for each in pages))
            assert read <= 4
            texts = {each.rendered("viewer", render) for each in updates if isinstance(each, Reading)}
            assert rendered == len(texts) <= 2
        assert not shared.topics

    asyncio.run(body())


def test_a_state_that_takes_long_to_read_is_read_less_often(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> list[float]:
        reads = SharedReads(app, Readings())
        found = [reads.seconds()]
        for _ in range(shared.READS):
            await reads.state()
            found.append(reads.seconds())
        await app.aclose()
        return found

    monkeypatch.setattr(shared, "SHARED_SECONDS", 0.0)
    monkeypatch.setattr(shared, "LONG_SECONDS", 60.0)
    assert asyncio.run(body()) == [2.0] * 6
    monkeypatch.setattr(shared, "LONG_SECONDS", 0.0)
    assert asyncio.run(body()) == [2.0] * 5 + [4.0]


@pytest.mark.parametrize("interval", [1.0, 2.0, 4.0])
def test_pages_do_not_look_stale_when_they_are_read_less_often(interval: float) -> None:
    """They look stale after 4.7 seconds. A read may end at any time."""
    moments = [tenths / 10 for tenths in range(81)]
    pauses = [readings.seconds_until_next(interval, moment) for moment in moments]
    assert max(pauses) <= 4.0
    assert min(pauses) >= min(interval, 2.0) / 2
    for moment, pause in zip(moments, pauses, strict=True):
        second = moment + pause + 0.03  # a read
        third = second + readings.seconds_until_next(interval, second)
        assert round(third, 6) % interval == 0, "all topics are read at the same moments"


def test_several_who_ask_at_once_wait_for_one_read() -> None:
    reads = 0

    async def read() -> int:
        nonlocal reads
        reads += 1
        await asyncio.sleep(0.05)
        return reads

    async def body() -> None:
        shared = Readings()
        assert await asyncio.gather(*(shared.recent("list", read, 0.0) for _ in range(50))) == [1] * 50
        await asyncio.sleep(0.01)
        assert await shared.recent("list", read, 60.0) == 1
        assert await shared.recent("list", read, 0.01) == 2

    asyncio.run(body())


def test_a_read_that_failed_is_not_kept() -> None:
    """Else pages would say for some seconds that the database is unavailable, although it is back."""

    async def fail() -> int:
        raise ConnectionError

    async def read() -> int:
        return 1

    async def body() -> None:
        shared = Readings()
        with pytest.raises(ConnectionError):
            await shared.recent("list", fail, 60.0)
        assert await shared.recent("list", read, 60.0) == 1

    asyncio.run(body())


def test_pages_are_told_when_a_read_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "SLOW_SECONDS", 0.05)
    reads = 0

    async def read() -> int:
        nonlocal reads
        reads += 1
        if reads == 2:
            await asyncio.sleep(0.3)
        return reads

    async def body() -> None:
        async with aclosing(Readings().follow("slow", read, 0.01)) as updates:
            kinds = [type(await anext(updates)) for _ in range(3)]
            assert kinds == [Reading, Unavailable, Unavailable]
            while not isinstance(update := await anext(updates), Reading):
                pass
            # The slow read went on: a second one was not begun beside it.
            assert update.value == 2

    asyncio.run(body())


def test_pages_that_wait_are_told_what_keeps_others_from_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "SLOW_SECONDS", 0.1)
    monkeypatch.setattr(readings, "RETRY_SECONDS", 0.01)
    limits: list[float] = []
    ended = asyncio.Event()

    async def locked() -> None:
        known = current()
        assert known
        limits.append(known.read_lock)
        if len(limits) > readings.MAX_READS:
            await ended.wait()
        raise TableLocked("locked")

    async def free() -> None:
        pass

    async def body() -> None:
        shared = Readings()
        async with AsyncExitStack() as stack:
            pages = [shared.follow(("locked", n), locked) for n in range(readings.MAX_READS)]
            await asyncio.gather(*(first(stack, each) for each in pages))
            while len(limits) < 2 * readings.MAX_READS:  # until all turns are taken
                await asyncio.sleep(0.001)
            waiting = await first(stack, shared.follow("free", free))
            assert waiting == Unavailable(summary_of(TableLocked()))
            # A page that was told the reason is told no other one while the next read goes on.
            assert [await anext(pages[0]) for _ in range(2)] == [waiting, waiting]
            at_once = await first(stack, shared.follow("health", free, takes_turns=False))
            assert isinstance(at_once, Reading)
            ended.set()

    asyncio.run(body())
    # Once the lock is known, a read waits less long for it.
    assert limits[0] == ON_SCREEN.read_lock
    assert limits[readings.MAX_READS] == readings.KNOWN_LOCK.read_lock


def test_pages_are_read_at_once_when_something_changes_that_they_must_show_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker becomes stuck, the database does not answer, a table is locked; and the end of it."""
    monkeypatch.setattr(readings, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(readings, "SLOW_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(readings, "CHANGE_SECONDS", 0.0)
    looks: asyncio.Queue[object] = asyncio.Queue()
    reads = kept = 0

    async def look() -> object:
        found = await looks.get()
        if isinstance(found, Exception):
            raise found
        return found

    async def keep() -> int:
        nonlocal kept
        kept += 1
        return kept

    async def body() -> None:
        shared = Readings(look)

        async def read() -> int:
            nonlocal reads
            reads += 1
            return await shared.recent("state", keep, 60.0)

        async def changes(found: object) -> bool:
            before = reads
            looks.put_nowait(found)
            while not looks.empty():  # until it was seen
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.03)
            return reads > before

        async with aclosing(shared.follow("overview", read, 60.0)) as updates:
            await anext(updates)
            assert not await changes(frozenset()), "it has just been read"
            assert not await changes(frozenset())
            assert await changes(frozenset({"stuck"}))
            assert kept == 2, "what was kept from before is not shown"
            assert not await changes(frozenset({"stuck"}))
            assert await changes(TableLocked())
            assert not await changes(TableLocked())
            assert await changes(frozenset())
            monkeypatch.setattr(readings, "CHANGE_SECONDS", 60.0)
            assert not await changes(frozenset({"stuck"})), "not again and again"
            monkeypatch.setattr(readings, "CHANGE_SECONDS", 0.0)
            assert await changes(frozenset({"stuck"})), "but it is not forgotten"
            before = reads
            await asyncio.sleep(0.2)  # a look that takes long
            assert reads == before + 1
        assert shared._watching
        await asyncio.wait({shared._watching}, timeout=5)
        assert shared._watching.cancelled(), "nobody looks at a page any more"

    asyncio.run(body())


def test_a_few_topics_are_read_at_a_time() -> None:
    now = most = 0

    async def read() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1

    async def body() -> None:
        shared = Readings()
        async with AsyncExitStack() as stack:
            await asyncio.gather(*(first(stack, shared.follow(n, read)) for n in range(20)))
        assert most == readings.MAX_READS

    asyncio.run(body())


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
