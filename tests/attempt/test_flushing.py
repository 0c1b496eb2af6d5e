"""The records of a job are written before its outcome, whatever happens to the database in between."""

import asyncio
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support import handlers
from tests.support.effects import stored_events, written
from tests.support.workers import auntil, run
from treadle import Job, Treadle
from treadle.worker.worker import Worker


@pytest.mark.fresh_database
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
    assert stored_events(connection) == [(1, "paid")]


@pytest.mark.usefixtures("effects", "handlers_use_test_database")
def test_an_event_of_a_child_is_not_lost_if_the_worker_s_backend_dies(url: str, connection: Connection[Any]) -> None:
    async def body(_: Worker) -> None:
        await (await handlers.publish_events.aenqueue(events=0)).aresult(30)
        assert await (await handlers.pay_in_child.aenqueue(url=url)).aresult(30) == "done"

    run(handlers.app, body, types=["pay_in_child", "publish_events"])
    assert written(connection) == ["a"]
    assert stored_events(connection) == [(1, "paid")]


def test_a_locked_row_does_not_delay_the_outcomes_of_other_jobs(app: Treadle, connect: Connect) -> None:
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


def test_a_worker_that_stops_waits_for_a_postponed_outcome(app: Treadle, connect: Connect) -> None:
    """The row of a job with an unwritten event is locked, and unlocked while the worker stops."""
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
