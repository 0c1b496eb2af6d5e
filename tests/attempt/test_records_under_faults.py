"""Hazards of telling and remembering: lost answers, locks of others, earlier attempts, strange values."""

import asyncio
import contextlib
import itertools
import logging
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support import handlers
from tests.support.workers import auntil, run
from treadle import Backoff, InvalidArgument, Job, JobQueue, Treadle
from treadle.db.query import Query
from treadle.worker import Worker, recorder

pytestmark = pytest.mark.own_database


@pytest.fixture
def effects(connection: Connection[Any]) -> Any:
    connection.execute("create table public.effects (what text)")
    yield
    connection.execute("drop table public.effects")


def written(connection: Connection[Any]) -> list[str]:
    return [row[0] for row in connection.execute("select what from public.effects order by what")]


def names(connection: Connection[Any]) -> list[tuple[int, str]]:
    return connection.execute("select number, name from events order by job_id, number").fetchall()


# What was told before job.complete()


@pytest.mark.usefixtures("effects")
def test_an_event_is_not_lost_if_the_worker_s_backend_dies_before_the_job_completes_itself(
    app: Treadle, connection: Connection[Any]
) -> None:
    @app.job
    def pay(job: Job) -> str:
        with job.transaction() as transaction:
            transaction.execute("insert into public.effects values ('a')")
            job.event("paid")
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name like 'treadle %'"
            )
            job.complete("done")
        return "not this"

    @app.job
    async def other() -> None: ...

    async def body(_: Worker) -> None:
        await (await other.aenqueue()).aresult(30)  # the worker has its connections
        assert await (await pay.aenqueue()).aresult(30) == "done"

    run(app, body)
    assert written(connection) == ["a"]
    assert names(connection) == [(1, "paid")]


@pytest.mark.usefixtures("effects", "here")
def test_the_same_in_a_child(url: str, connection: Connection[Any]) -> None:
    async def body(_: Worker) -> None:
        await (await handlers.tell.aenqueue(events=0)).aresult(30)
        assert await (await handlers.pay_apart.aenqueue(url=url)).aresult(30) == "done"

    run(handlers.app, body, types=["pay_apart", "tell"])
    assert written(connection) == ["a"]
    assert names(connection) == [(1, "paid")]


def test_a_row_that_somebody_holds_does_not_hold_up_the_ends_of_others(app: Treadle, connect: Connect) -> None:
    go = asyncio.Event()

    @app.job
    async def teller(job: Job) -> None:
        job.event("began")
        await go.wait()
        job.event("told")

    @app.job
    async def other() -> None: ...

    async def body(worker: Worker) -> None:
        handle = await teller.aenqueue()
        await auntil(lambda: _count(handle))
        with connect(autocommit=False) as holder:
            holder.execute("select treadle.record_event(%s, 'by hand')", [handle.id])
            go.set()
            await auntil(lambda: worker.completer.postponed)
            await (await other.aenqueue()).aresult(30)
            holder.rollback()
        await handle.aresult(30)
        assert (await handle.ajob()).events_count == 2

    async def _count(handle: Any) -> bool:
        return bool((await handle.ajob()).events_count == 1)

    run(app, body)


def test_a_worker_that_stops_waits_for_an_end_that_was_put_off(app: Treadle, connect: Connect) -> None:
    """Somebody holds the row of a job that told something; it is let go while the worker stops."""
    go = asyncio.Event()

    @app.job
    async def teller(job: Job) -> None:
        job.event("began")
        await go.wait()
        job.event("told")

    async def scene() -> None:
        worker = app.worker()
        await worker.start()
        handle = await teller.aenqueue()
        await auntil(lambda: app.queue.get(handle.id).events_count == 1)
        holder = connect(autocommit=False)
        holder.execute("select from jobs for no key update")
        go.set()
        await auntil(lambda: worker.completer.postponed)
        stopping = asyncio.create_task(worker.stop())
        await auntil(lambda: not worker.may_start())
        holder.rollback()
        await stopping
        row = await handle.ajob()
        assert (row.status, row.events_count) == ("completed", 2)
        await app.aclose()

    asyncio.run(scene())


# Steps that are tried again by the handler


@pytest.mark.usefixtures("effects")
def test_a_step_that_the_handler_tries_again_is_done_once_over_all_attempts(
    app: Treadle, connection: Connection[Any]
) -> None:
    calls: list[str] = []

    @app.job(max_attempts=3, backoff=Backoff(first="10ms"))
    def transfer(job: Job) -> str:
        def debit(transaction: Connection[Any]) -> None:
            calls.append("debit")
            transaction.execute("insert into public.effects values ('debit')")
            if len(calls) == 1:
                raise OSError("try again")

        def announce() -> str:
            return "announced"

        try:
            job.transact("debit", debit)
        except OSError:
            job.transact("debit", debit)
        if job.attempt == 1:
            raise ValueError("after it")
        return job.step("announce", announce)

    async def body(_: Worker) -> None:
        assert await (await transfer.aenqueue()).aresult(30) == "announced"

    run(app, body)
    assert written(connection) == ["debit"]


@pytest.mark.usefixtures("effects")
def test_a_transact_whose_commit_was_not_answered_is_done_once_if_the_handler_tries_it_again(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from treadle.db.database import Database

    lost: list[int] = []
    whole = Database.transaction

    @contextlib.contextmanager
    def forgetful(self: Database) -> Any:
        with whole(self) as transaction:
            yield transaction
        if not lost:
            lost.append(1)
            raise psycopg.OperationalError("the answer to the commit was lost")

    monkeypatch.setattr(Database, "transaction", forgetful)

    @app.job(max_attempts=1)
    def transfer(job: Job) -> int:
        def debit(transaction: Connection[Any]) -> int:
            transaction.execute("insert into public.effects values ('debit')")
            return len(lost)

        try:
            return job.transact("debit", debit)
        except psycopg.OperationalError:
            return job.transact("debit", debit)

    async def body(_: Worker) -> None:
        assert await (await transfer.aenqueue()).aresult(30) == 0

    run(app, body)
    assert written(connection) == ["debit"]


# Two who tell of one job


@pytest.mark.usefixtures("here")
def test_what_a_middleware_tells_of_a_child_s_job_does_not_hide_what_the_child_tells(
    connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def around(job: Job, call: Any) -> Any:
        job.event("around")
        logging.getLogger("mine").warning("around")
        await asyncio.sleep(0.1)
        return await call()

    monkeypatch.setattr(handlers.app, "middlewares", [around])

    async def body(_: Worker) -> None:
        await (await handlers.tell.aenqueue(events=2)).aresult(30)
        shouted = await handlers.shout.aenqueue(lines=1)
        await shouted.aresult(30)
        lines = [line.message for line in await shouted.alogs()]
        assert lines == ["around", "logged 0", "printed 0", "without an end"]

    run(handlers.app, body, types=["tell", "shout"])
    assert [
        name for (name,) in connection.execute("select name from events where job_type = 'tell' order by number")
    ] == [
        "around",
        "told",
        "told",
    ]


def test_what_is_left_of_an_earlier_attempt_does_not_hide_what_the_next_one_tells(
    app: Treadle, connection: Connection[Any]
) -> None:
    left: list[Any] = []

    @app.job(max_attempts=2, backoff=Backoff(first="10ms"))
    async def gathers(job: Job) -> None:
        async def sibling() -> None:
            while True:
                await asyncio.sleep(0)
                job.event("late")

        if job.attempt == 1:
            left.append(job)
            raise ValueError("its sibling goes on")
        # As a task that the first attempt left behind would.
        job.event("second")
        left[0].event("late")

    async def body(_: Worker) -> None:
        await (await gathers.aenqueue()).aresult(30)

    run(app, body)
    assert names(connection) == [(1, "second")]


# Progress that cannot be said


def test_a_total_beyond_all_numbers_does_not_lose_the_job_s_end(app: Treadle) -> None:
    @app.job(max_attempts=1)
    async def counts(job: Job, total: int) -> str:
        with contextlib.suppress(InvalidArgument):
            for _ in job.track(iter(range(3)), total=total):
                await asyncio.sleep(0.2)
        return "done"

    async def body(_: Worker) -> None:
        for exponent in (308, 400):
            assert await (await counts.aenqueue(total=10**exponent)).aresult(30) == "done"

    run(app, body)


# All events


def test_all_events_of_a_job_come_by_number_also_from_a_transaction_that_began_earlier(
    app: Treadle, queue: JobQueue, connect: Connect
) -> None:
    job_id = queue.enqueue("x", {})
    early, late = connect(autocommit=False), connect()
    early.execute("select pg_current_xact_id()")
    late.execute("select treadle.record_event(%s, 'first')", [job_id])
    early.execute("select treadle.record_event(%s, 'second')", [job_id])
    early.commit()
    # Live: whatever runs on the server, also for another test, may hold them up.
    found = [(event.number, event.name) for event in itertools.islice(app.events(), 2)]
    assert found == [(1, "first"), (2, "second")]


@pytest.mark.parametrize(
    "cursor", ["1.{}.99999999999", "99999999999999999999999.{}.1", "-5.{}.1", "1_0.{}.1", "1.{}.-1"]
)
def test_a_cursor_that_is_none_is_refused_and_not_tried_for_ever(app: Treadle, cursor: str) -> None:
    from uuid import UUID

    async def body() -> None:
        try:
            async with asyncio.timeout(30):
                with pytest.raises(InvalidArgument):
                    _ = [event async for event in app.events(after=cursor.format(UUID(int=0)), follow=False)]
        finally:
            await app.aclose()

    asyncio.run(body())


@pytest.mark.parametrize("after", [2**31, "99999999999.1.1", "1.99999999999999999999.1"])
def test_a_position_beyond_all_numbers_is_refused(app: Treadle, queue: JobQueue, after: Any) -> None:
    job_id = queue.enqueue("x", {})
    with pytest.raises(InvalidArgument):
        list(app.handle(job_id).events(after=after, follow=False))


# The rest


def test_a_callable_that_cannot_be_hashed_is_a_step_all_the_same(app: Treadle) -> None:
    from dataclasses import dataclass

    calls: list[int] = []

    @dataclass
    class Upload:
        path: str

        def __call__(self) -> int:
            calls.append(1)
            return 3

    @app.job(max_attempts=1)
    def uploads(job: Job) -> int:
        return job.step("upload", Upload("a"))

    async def body(_: Worker) -> None:
        assert await (await uploads.aenqueue()).aresult(30) == 3

    run(app, body)


def test_large_events_are_written_in_pieces_that_do_not_hold_up_others(app: Treadle) -> None:
    @app.job(max_attempts=1)
    def tells(job: Job) -> None:
        text = "é\\" * 15_000
        for _ in range(1500):
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
    assert sum(sizes) > 1500 * 30_000
    assert max(sizes) <= recorder.SIZE
