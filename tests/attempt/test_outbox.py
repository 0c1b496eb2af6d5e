"""Events between the handler and the table: fenced, written once, through outages, without delaying other jobs."""

import asyncio
import logging
import threading
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support import handlers
from tests.support.effects import stored_events
from tests.support.waiting import until_waiting_for_lock
from tests.support.workers import auntil, one, run
from treadle import Backoff, InvalidArgument, InvalidPayload, Job, JobFailed, JobQueue, Retries, Treadle
from treadle.db.queries import events as event_queries
from treadle.db.query import Query
from treadle.words.job import Claim
from treadle.words.record import OutgoingEvent
from treadle.worker import recorder
from treadle.worker.worker import Worker


def test_events_of_a_job_that_was_taken_away_are_refused(app: Treadle, connection: Connection[Any]) -> None:
    go = asyncio.Event()

    @app.job
    async def work(job: Job) -> None:
        await go.wait()
        job.event("late")
        await asyncio.sleep(5)

    async def body(worker: Worker) -> None:
        await work.aenqueue()
        await auntil(lambda: one(connection, "select status = 'running' from jobs"))
        connection.execute("update jobs set lease = lease + 1, worker_id = 'other'")
        go.set()
        await auntil(lambda: not len(worker.running))
        assert one(connection, "select count(*) from events") == 0

    run(app, body)


def test_an_event_is_not_written_twice_when_the_reply_was_lost(app: Treadle, queue: JobQueue, connect: Connect) -> None:
    """The first write is still in progress, on a connection that was given up, when the event is sent again."""
    queue.enqueue("a")
    (job,) = queue.claim(["a"])
    claim = Claim(job.id, job.lease, "a", "{}", 1, 3, 0, "default", 100, None, None, 0.0)
    query = event_queries.record_events(queue.worker_id, [(claim, [OutgoingEvent(1, 0.0, "one", "{}")])], 0.0)
    first, second = connect(autocommit=False), connect()
    first.execute(query.bound("treadle"), query.params)
    again = threading.Thread(target=lambda: second.execute(query.bound("treadle"), query.params))
    again.start()
    until_waiting_for_lock(connect())
    first.commit()
    again.join()
    assert [event.number for event in app.handle(job.id).events(follow=False) if event.number] == [1]
    assert queue.get(job.id).events_count == 1


@pytest.mark.fresh_database
def test_events_survive_lost_connections(app: Treadle, connection: Connection[Any]) -> None:
    """Backends are killed while 30 events are published: a listener gets each once, in order."""

    @app.job
    async def talk(job: Job) -> None:
        for n in range(30):
            job.event("said", n=n)
            await asyncio.sleep(0.03)

    async def body(_: Worker) -> list[int]:
        handle = await talk.aenqueue()
        heard = []
        async for event in handle.events():
            if event.name == "said":
                heard.append(event.data["n"])
                if len(heard) in (5, 20):
                    connection.execute(
                        "select pg_terminate_backend(pid) from pg_stat_activity"
                        " where datname = current_database() and pid <> pg_backend_pid()"
                    )
        return heard

    assert run(app, body) == list(range(30))


def test_an_event_that_cannot_be_stored_is_refused_at_once(app: Treadle) -> None:
    problems: list[str] = []

    @app.job
    async def talk(job: Job) -> None:
        for data in ({"n": float("nan")}, {"text": "\x00"}, {"thing": object()}, {"much": "x" * 70_000}):
            try:
                job.event("said", **data)
            except InvalidPayload as error:
                problems.append(str(error))
        for name in ("", "x" * 101, "a\nb"):
            try:
                job.event(name)
            except InvalidArgument as error:
                problems.append(str(error))
        job.event("fine")

    async def body(_: Worker) -> dict[str, int | None]:
        handle = await talk.aenqueue()
        await handle.aresult(30)
        return {event.name: event.number async for event in handle.events()}

    assert run(app, body)["fine"] == 1
    assert len(problems) == 7
    assert problems[0].startswith("said.n: nan is not a JSON number")


def test_a_handler_that_publishes_faster_than_the_database_writes_has_to_wait_or_fail(app: Treadle) -> None:
    """On a thread it waits; on the event loop, where nothing could be written meanwhile, it is an error."""

    @app.job
    def wait(job: Job) -> None:
        for n in range(14_000):
            job.event("said", n=n)

    @app.job(retry=Retries(0))
    async def stop(job: Job) -> None:
        for n in range(14_000):
            job.event("said", n=n)

    async def body(_: Worker) -> None:
        waits, stops = await wait.aenqueue(), await stop.aenqueue()
        await waits.aresult(60)
        assert (await waits.ajob()).events_count == 14_000
        with pytest.raises(JobFailed, match="10,000 events of this job are waiting"):
            await stops.aresult(60)
        assert (await stops.ajob()).events_count == 10_000

    run(app, body)


def test_an_event_that_cannot_be_written_does_not_prevent_the_outcome(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "GATHER_SECONDS", 0.2)

    @app.job
    async def good(job: Job) -> None:
        job.event("good")
        await asyncio.sleep(0.5)  # so that all of them are sent together

    @app.job
    async def bad(job: Job) -> None:
        job.event("bad")
        await asyncio.sleep(0.5)

    async def body(_: Worker) -> None:
        handles = [await good.aenqueue(), await bad.aenqueue(), await good.aenqueue()]
        for handle in handles:
            await handle.aresult(30)
        assert [(await handle.ajob()).events_count for handle in handles] == [1, 0, 1]

    connection.execute("alter table events add constraint none check (name <> 'bad')")
    try:
        run(app, body)
    finally:
        connection.execute("alter table events drop constraint none")


def test_a_handler_that_publishes_without_end_does_not_delay_others(app: Treadle) -> None:
    stop = threading.Event()

    @app.job
    def talk(job: Job) -> None:
        while not stop.is_set():
            job.event("said")

    @app.job
    async def quick(job: Job) -> None:
        job.event("done")

    async def body(worker: Worker) -> None:
        talking = await talk.aenqueue()
        try:
            for _ in range(5):
                await (await quick.aenqueue()).aresult(30)
        finally:
            stop.set()
        await talking.aresult(30)

    run(app, body)


@pytest.mark.usefixtures("handlers_use_test_database")
def test_events_of_a_middleware_do_not_hide_those_of_the_child(
    connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def around(job: Job, call: Any) -> Any:
        job.event("around")
        logging.getLogger("mine").warning("around")
        await asyncio.sleep(0.1)
        return await call()

    monkeypatch.setattr(handlers.app.backend.middlewares, "outer", [around])

    async def body(_: Worker) -> None:
        await (await handlers.publish_events.aenqueue(events=2)).aresult(30)
        logged = await handlers.log_and_print.aenqueue(lines=1)
        await logged.aresult(30)
        lines = [line.message for line in await logged.alogs()]
        assert lines == ["around", "logged 0", "printed 0", "without an end"]

    run(handlers.app, body, types=["publish_events", "log_and_print"])
    assert [
        name
        for (name,) in connection.execute("select name from events where job_type = 'publish_events' order by number")
    ] == [
        "around",
        "published",
        "published",
    ]


def test_events_of_an_earlier_attempt_do_not_hide_those_of_the_next(app: Treadle, connection: Connection[Any]) -> None:
    left: list[Any] = []

    @app.job(retry=Retries(1, backoff=Backoff(first="10ms")))
    async def gathers(job: Job) -> None:
        async def sibling() -> None:
            while True:
                await asyncio.sleep(0)
                job.event("late")

        if job.attempt == 1:
            left.append(job)
            raise ValueError("its sibling goes on")
        # As a task would do that the first attempt has left behind.
        job.event("second")
        left[0].event("late")

    async def body(_: Worker) -> None:
        await (await gathers.aenqueue()).aresult(30)

    run(app, body)
    assert stored_events(connection) == [(1, "second")]


def test_large_events_are_written_in_pieces_that_do_not_delay_others(app: Treadle) -> None:
    @app.job(retry=Retries(0))
    def tells(job: Job) -> None:
        text = "é\\" * 15_000
        for _ in range(700):
            job.event("large", text=text)

    @app.job
    async def other() -> None: ...

    sizes: list[int] = []

    async def body(worker: Worker) -> None:
        send = worker.connections.outcomes.run

        async def measured(query: Query[Any]) -> Any:
            if "record_events" in query.text:
                sizes.append(sum(map(len, query.params["data"])))
            return await send(query)

        worker.connections.outcomes.run = measured  # type: ignore[method-assign]
        handle = await tells.aenqueue()
        await auntil(lambda: sizes)
        await (await other.aenqueue()).aresult(60)
        assert not (await handle.astatus()).finished
        await handle.aresult(100)

    run(app, body)
    assert sum(sizes) > 700 * 30_000
    assert max(sizes) <= recorder.SIZE
