"""Events, from job.event() to whoever listens: durable, numbered, live, none twice and none left out."""

import asyncio
from typing import Any

import pytest
from psycopg import Connection

from tests.support import handlers
from tests.support.workers import auntil, one, run
from treadle import InvalidArgument, Job, JobNotFound, JobQueue, RecordedEvent, Treadle
from treadle.db.queries import events as event_queries
from treadle.db.query import Query
from treadle.db.script import Request, iterate
from treadle.watching import streams, watch
from treadle.words.claim import Claim
from treadle.words.record import OutgoingEvent
from treadle.worker import Worker

pytestmark = pytest.mark.own_database


def told(events: list[RecordedEvent]) -> list[tuple[str, int | None]]:
    return [(event.name, event.number) for event in events]


def test_a_job_s_life_is_one_stream(app: Treadle) -> None:
    """For who listens from the start: a claim of an earlier attempt is not stored, so the first one waits for us."""
    heard = asyncio.Event()

    @app.job
    async def render(job: Job) -> None:
        if job.attempt == 1:
            await heard.wait()
            job.event("rendered", bytes=1834)
            raise ValueError("no ink")
        job.event("rendered", bytes=1900)
        job.event("sent", to=["a", "b"])

    async def body(_: Worker) -> None:
        handle = await render.aenqueue()
        events = []
        async for event in handle.events():
            events.append(event)
            if event.name == "claimed":
                heard.set()
        assert told(events) == [
            ("enqueued", None),
            ("claimed", None),
            ("started", None),
            ("rendered", 1),
            ("retried", None),
            ("claimed", None),
            ("started", None),
            ("rendered", 2),
            ("sent", 3),
            ("completed", None),
        ]
        assert events[3].data == {"bytes": 1834}
        assert events[4].data["error"] == "ValueError: no ink"
        assert [event.attempt for event in events] == [0, 1, 1, 1, 1, 2, 2, 2, 2, 2]
        assert [event.at for event in events] == sorted(event.at for event in events)
        assert (await handle.ajob()).events_count == 3

    run(app, body)


def test_the_past_is_told_from_what_is_stored(app: Treadle) -> None:
    """All but claims of earlier attempts, for which there is no row."""

    @app.job
    async def render(job: Job) -> None:
        job.event("rendered")
        if job.attempt == 1:
            raise ValueError("no ink")

    async def body(_: Worker) -> None:
        handle = await render.aenqueue()
        await handle.aresult(30)
        names = [event.name for event in handle.events()]
        assert names == ["enqueued", "started", "rendered", "retried", "claimed", "started", "rendered", "completed"]

    run(app, body)


@pytest.mark.parametrize("cut", range(9))
def test_who_goes_on_from_an_event_misses_nothing_and_sees_nothing_twice(
    app: Treadle, queue: JobQueue, cut: int
) -> None:
    """Wherever the stream was cut."""
    job_id = queue.enqueue("a")
    (first,) = queue.claim(["a"])
    queue.start(first)
    queue.event(first, "one")
    queue.fail(first, "no", delay=0)
    queue.event(job_id, "while it waits")
    (second,) = queue.claim(["a"])
    queue.start(second)
    queue.event(second, "two")
    queue.complete(second)
    whole = list(app.handle(job_id).events())
    names = ["enqueued", "started", "one", "retried", "while it waits", "claimed", "started", "two", "completed"]
    assert [event.name for event in whole] == names
    after = None if cut == 0 else whole[cut - 1].cursor
    assert list(app.handle(job_id).events(after=after)) == whole[cut:]


def test_a_last_attempt_has_failed_and_is_not_retried(app: Treadle, queue: JobQueue) -> None:
    job_id = queue.enqueue("a", max_attempts=1)
    (job,) = queue.claim(["a"])
    queue.fail(job, "no")
    assert [event.name for event in app.handle(job_id).events()] == ["enqueued", "failed"]


def test_who_tells_something_has_begun(app: Treadle, queue: JobQueue) -> None:
    job_id = queue.enqueue("a")
    (job,) = queue.claim(["a"])
    claim = Claim(job.id, job.lease, "a", "{}", 1, 3, 0, "default", 100, None, None, 0.0)
    app.database.run(event_queries.record_events(queue.worker_id, [(claim, [OutgoingEvent(1, 0.0, "one", "{}")])], 0.0))
    assert queue.get(job_id).status == "running"
    assert queue.get(job_id).started_at is not None


def test_who_goes_on_from_a_number_sees_what_came_after_it(app: Treadle, queue: JobQueue) -> None:
    job_id = queue.enqueue("a")
    (job,) = queue.claim(["a"])
    for name in ("one", "two", "three"):
        queue.event(job, name)
    queue.complete(job)
    handle = app.handle(job_id)
    assert [event.name for event in handle.events(after=2)] == ["three", "completed"]
    assert [event.name for event in handle.events(after=3)] == ["completed"]
    assert [event.name for event in handle.events(after=0)] == [event.name for event in handle.events()]


@pytest.mark.parametrize("after", ["x", "1.2", "1.2.3.4", -1, True, "²"])
def test_a_place_that_is_none_is_refused(app: Treadle, queue: JobQueue, after: Any) -> None:
    with pytest.raises(InvalidArgument, match="after must be"):
        app.handle(queue.enqueue("a")).events(after=after)


def test_a_job_that_is_not_there_is_said_to_be(app: Treadle) -> None:
    with pytest.raises(JobNotFound):
        list(app.handle("01a1de76-52b0-79e2-ae88-9b92a7cada61").events())


def test_a_listener_is_woken_rather_than_polling(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would not look by itself before a minute is over."""
    monkeypatch.setattr(watch, "POLL_SECONDS", 60.0)
    heard: asyncio.Queue[int] = asyncio.Queue()

    @app.job
    async def talk(job: Job) -> None:
        for n in range(20):
            job.event("said", n=n)
            assert await asyncio.wait_for(heard.get(), 30) == n

    async def body(_: Worker) -> None:
        handle = await talk.aenqueue()
        async for event in handle.events():
            if event.name == "said":
                heard.put_nowait(event.data["n"])

    run(app, body)


def test_what_came_between_a_look_and_the_end_is_not_missed(app: Treadle, queue: JobQueue) -> None:
    job_id = queue.enqueue("a")
    (job,) = queue.claim(["a"])
    asked = 0

    def run_query(query: Query[Any] | Request) -> Any:
        nonlocal asked
        if not isinstance(query, Query):
            return None
        if "events_count" in query.text:
            asked += 1
            if asked == 2:
                queue.event(job, "last")
                queue.complete(job)
        return app.database.run(query)

    script = streams._job_events(job_id, event_queries.Position(), True)
    names = [event.name for event in iterate(script, run_query)]
    assert names[-2:] == ["last", "completed"]


def test_nothing_is_sent_while_nobody_listens(app: Treadle, connection: Connection[Any]) -> None:
    channel = one(connection, "select channel('news')")
    connection.execute(f"listen {channel}".encode())

    @app.job
    async def talk(job: Job) -> None:
        job.event("said")

    async def body(_: Worker) -> None:
        connection.execute("select request_notifications('ends', '1 minute')")  # that is another matter
        await (await talk.aenqueue()).aresult(30)

    run(app, body)
    assert list(connection.notifies(timeout=0.2)) == []


def test_a_sync_listener_hears_the_same(app: Treadle) -> None:
    heard: list[tuple[str, int | None]] = []

    @app.job
    async def talk(job: Job) -> None:
        await started.wait()
        for n in range(5):
            job.event("said", n=n)
            await asyncio.sleep(0.02)

    def listen(handle: Any) -> None:
        for event in handle.events():
            heard.append((event.name, event.number))  # noqa: PERF401 - one by one, as they come

    started = asyncio.Event()

    async def body(_: Worker) -> None:
        handle = await talk.aenqueue()
        listening = asyncio.create_task(asyncio.to_thread(listen, handle))
        await auntil(lambda: heard)
        started.set()
        await listening

    run(app, body)
    assert [name for name, number in heard if number] == ["said"] * 5
    assert heard[-1][0] == "completed"


def test_a_child_process_tells_events(app: Treadle, here: None) -> None:
    async def body(_: Worker) -> list[tuple[str, int | None]]:
        handle = await handlers.tell.aenqueue(events=2500)
        await handle.aresult(30)
        return told([event async for event in handle.events()])

    events = run(handlers.app, body, types=["tell"])
    assert [each for each in events if each[1]] == [("told", n) for n in range(1, 2501)]
