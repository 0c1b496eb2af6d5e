"""How many jobs a worker claims, and how often it asks for them."""

import asyncio
import time
import traceback
from typing import Any

import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.support.workers import WaitingJob, auntil, one, run
from treadle import Treadle
from treadle.db.query import Query
from treadle.db.reconnecting import ReconnectingConnection
from treadle.worker.claimer import TURN
from treadle.worker.worker import Worker


@pytest.mark.parametrize(("prefetch", "held"), [(0, 2), (3, 5), (None, 2)])
def test_no_more_jobs_are_claimed_than_asked_for(
    app: Treadle, connection: Connection[Any], waiting_job: WaitingJob, prefetch: int | None, held: int
) -> None:
    """By default no long job is prefetched: another worker could start it in the meantime."""
    wait_for_event, began, go = waiting_job

    async def body(worker: Worker) -> None:
        handles = await wait_for_event.aenqueue_many({"n": n} for n in range(8))
        await auntil(lambda: len(began) == 2)
        await auntil(lambda: not worker.connections.claims.lock.locked())
        assert one(connection, "select count(*) from jobs where worker_id is not null") == held
        assert len(began) == 2
        go.set()
        assert [await handle.aresult(30) for handle in handles] == list(range(8))

    run(app, body, concurrency=2, prefetch=prefetch, grace=0)


def test_a_locked_job_is_not_asked_for_all_the_time(
    app: Treadle, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, statements = ReconnectingConnection.run, 0

    async def counted(connection: ReconnectingConnection, query: Query[Any]) -> Any:
        nonlocal statements
        statements += 1
        return await real(connection, query)

    monkeypatch.setattr(ReconnectingConnection, "run", counted)

    @app.job
    async def hello() -> str:
        return "hello"

    handle = hello.enqueue()
    holder = connect(autocommit=False)
    holder.execute("select from jobs for update")

    async def body(worker: Worker) -> None:
        before, began = statements, time.monotonic()
        await asyncio.sleep(0.5)  # without a pause between them there would be hundreds of statements
        assert statements - before < 120 * (time.monotonic() - began)
        holder.rollback()
        assert await handle.aresult(30) == "hello"

    run(app, body)


def test_jobs_that_finish_at_once_neither_nest_nor_block_the_loop(app: Treadle) -> None:
    depths: list[int] = []
    at_once: list[int] = []

    @app.job
    async def quick(n: int) -> None:
        depths.append(sum(1 for _ in traceback.walk_stack(None)))

    async def body(worker: Worker) -> None:
        await quick.aenqueue_many({"n": n} for n in range(2000))
        async with asyncio.timeout(30):
            while len(depths) < 2000:
                before = len(depths)
                await asyncio.sleep(0)
                at_once.append(len(depths) - before)

    run(app, body, concurrency=100, prefetch=1900)
    assert max(depths) < min(depths) + 10
    assert max(at_once) <= 4 * TURN
