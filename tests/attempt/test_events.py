"""Events, from job.event() to listeners: durable, numbered, live, none twice and none missed."""

import asyncio
import itertools
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support import handlers
from tests.support.workers import SOON, auntil, one, run, until
from treadle import InvalidArgument, Job, JobNotFound, JobQueue, RecordedEvent, Retries, Treadle
from treadle.db.queries import events as event_queries
from treadle.db.query import Query
from treadle.db.script import Request, iterate
from treadle.watching import updates, watch
from treadle.words.job import Claim
from treadle.words.record import OutgoingEvent
from treadle.worker.worker import Worker


def names_and_numbers(events: list[RecordedEvent]) -> list[tuple[str, int | None]]:
    return [(event.name, event.number) for event in events]


def test_a_job_s_life_is_one_stream(app: Treadle) -> None:
    """Claims of earlier attempts are not stored, so the first attempt waits until the listener has seen its claim."""
    heard = asyncio.Event()

    @app.job(retry=Retries(backoff=SOON))
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
        assert names_and_numbers(events) == [
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


def test_past_transitions_are_read_from_the_stored_job(app: Treadle) -> None:
    """All but the claims of earlier attempts, which are not stored."""

    @app.job(retry=Retries(backoff=SOON))
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
def test_a_reader_that_resumes_after_an_event_misses_nothing_and_sees_nothing_twice(
    app: Treadle, queue: JobQueue, cut: int
) -> None:
    """Wherever the stream was interrupted."""
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


def test_the_last_attempt_is_failed_and_not_retried(app: Treadle, queue: JobQueue) -> None:
    job_id = queue.enqueue("a", retry=Retries(0))
    (job,) = queue.claim(["a"])
    queue.fail(job, "no")
    assert [event.name for event in app.handle(job_id).events()] == ["enqueued", "failed"]


def test_a_job_that_publishes_an_event_has_started(app: Treadle, queue: JobQueue) -> None:
    job_id = queue.enqueue("a")
    (job,) = queue.claim(["a"])
    claim = Claim(job.id, job.lease, "a", "{}", 1, 3, 0, "default", 100, None, None, 0.0)
    app.database.run(event_queries.record_events(queue.worker_id, [(claim, [OutgoingEvent(1, 0.0, "one", "{}")])], 0.0))
    assert queue.get(job_id).status == "running"
    assert queue.get(job_id).started_at is not None


def test_a_reader_that_resumes_after_a_number_sees_what_came_after_it(app: Treadle, queue: JobQueue) -> None:
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
def test_an_invalid_position_is_refused(app: Treadle, queue: JobQueue, after: Any) -> None:
    with pytest.raises(InvalidArgument, match="after must be"):
        app.handle(queue.enqueue("a")).events(after=after)


def test_the_events_of_a_missing_job_raise_job_not_found(app: Treadle) -> None:
    with pytest.raises(JobNotFound):
        list(app.handle("01a1de76-52b0-79e2-ae88-9b92a7cada61").events())


def test_a_listener_is_woken_rather_than_polling(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a notification it would read again only after a minute."""
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


def test_an_event_between_the_last_read_and_the_end_is_not_missed(app: Treadle, queue: JobQueue) -> None:
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

    script = updates._job_events(job_id, event_queries.Position(), True)
    names = [event.name for event in iterate(script, run_query)]
    assert names[-2:] == ["last", "completed"]


def test_nothing_is_notified_while_nobody_listens(app: Treadle, connection: Connection[Any]) -> None:
    channel = one(connection, "select channel('news')")
    connection.execute(f"listen {channel}".encode())

    @app.job
    async def talk(job: Job) -> None:
        job.event("said")

    async def body(_: Worker) -> None:
        connection.execute("select request_notifications('ends', '1 minute')")  # for the result, not for the events
        await (await talk.aenqueue()).aresult(30)

    run(app, body)
    assert list(connection.notifies(timeout=0.2)) == []


def test_a_sync_listener_gets_the_same_events(app: Treadle) -> None:
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


def test_a_child_process_publishes_events(app: Treadle, handlers_use_test_database: None) -> None:
    async def body(_: Worker) -> list[tuple[str, int | None]]:
        handle = await handlers.publish_events.aenqueue(events=2500)
        await handle.aresult(30)
        return names_and_numbers([event async for event in handle.events()])

    events = run(handlers.app, body, types=["publish_events"])
    assert [each for each in events if each[1]] == [("published", n) for n in range(1, 2501)]


def test_all_events_of_a_job_come_by_number_also_from_a_transaction_that_began_earlier(
    app: Treadle, queue: JobQueue, connect: Connect
) -> None:
    job_id = queue.enqueue("x", {})
    early, late = connect(autocommit=False), connect()
    early.execute("select pg_current_xact_id()")
    late.execute("select treadle.record_event(%s, 'first')", [job_id])
    early.execute("select treadle.record_event(%s, 'second')", [job_id])
    early.commit()
    # Follows, because a transaction of another test on the same server may delay the events.
    found = [(event.number, event.name) for event in itertools.islice(app.events(), 2)]
    assert found == [(1, "first"), (2, "second")]


@pytest.mark.parametrize(
    "cursor", ["1.{}.99999999999", "99999999999999999999999.{}.1", "-5.{}.1", "1_0.{}.1", "1.{}.-1"]
)
def test_an_invalid_cursor_is_refused_and_not_retried_for_ever(app: Treadle, cursor: str) -> None:
    async def body() -> None:
        try:
            async with asyncio.timeout(30):
                with pytest.raises(InvalidArgument):
                    _ = [event async for event in app.events(after=cursor.format(UUID(int=0)), follow=False)]
        finally:
            await app.aclose()

    asyncio.run(body())


@pytest.mark.parametrize("after", [2**31, "99999999999.1.1", "1.99999999999999999999.1"])
def test_a_position_that_is_too_large_is_refused(app: Treadle, queue: JobQueue, after: Any) -> None:
    job_id = queue.enqueue("x", {})
    with pytest.raises(InvalidArgument):
        list(app.handle(job_id).events(after=after, follow=False))


def test_the_events_of_a_restored_dump_are_read_from_the_beginning(
    app: Treadle, queue: JobQueue, connection: Connection[Any]
) -> None:
    """The dump comes from a server with higher transaction ids."""
    queue.enqueue_many("a", [{}] * 3)
    for job in queue.claim(["a"]):
        queue.event(job, "first")
        queue.event(job, "second")
    connection.execute("select tick('0')")
    for table, column in (("events", "transaction"), ("ticks", "xid"), ("ticks", "next_xid")):
        connection.execute(f"update {table} set {column} = ({column}::text::bigint + 1000000000)::text::xid8")
    connection.execute("update ticks set ticked_at = now() - interval '1 hour'")
    assert list(app.events(follow=False)) == []
    connection.execute("select tick('0')")
    queue.event(job, "third")

    def found() -> list[RecordedEvent]:
        return list(app.events(follow=False))

    # A transaction of another test on the same server may delay the events.
    until(lambda: len(found()) == 7, seconds=20)
    assert [event.name for event in found()] == ["first", "second"] * 3 + ["third"]
    assert len({(event.job_id, event.number) for event in found()}) == 7
