"""A worker that stops: what it gives back, waits for, interrupts and writes."""

import asyncio
from typing import Any

from psycopg import Connection

from tests.support.workers import WaitingJob, auntil, one, run
from treadle import Retries, Snooze, Treadle
from treadle.db.queries import worker as worker_queries
from treadle.worker.worker import Worker


def test_jobs_that_were_not_started_are_given_back(
    app: Treadle, connection: Connection[Any], waiting_job: WaitingJob
) -> None:
    wait_for_event, began, go = waiting_job

    async def body() -> None:
        worker = app.worker(concurrency=1, prefetch=2)
        await worker.start()
        await wait_for_event.aenqueue_many({"n": n} for n in range(3))
        await auntil(lambda: len(worker.claimers[0].ready) == 2)
        stopping = asyncio.create_task(worker.stop())
        await auntil(
            lambda: one(connection, "select count(*) from jobs where status = 'pending' and attempts = 0") == 2
        )
        go.set()
        await stopping
        await app.aclose()

    asyncio.run(body())
    assert began == [0]


def test_a_claim_that_arrives_while_the_worker_stops_is_given_back(
    app: Treadle, connection: Connection[Any], waiting_job: WaitingJob
) -> None:
    wait_for_event, began, _ = waiting_job

    async def body(worker: Worker) -> None:
        await wait_for_event.aenqueue(n=1)
        claimed = await worker.connections.claims.run(
            worker_queries.claim(worker.worker_id, ["wait_for_event"], 1, None)
        )
        worker.stopping = True
        worker.claimers[0].take(claimed.claims)
        await auntil(lambda: one(connection, "select status from jobs") == "pending")

    run(app, body, queues=["another"], grace=0)
    assert began == []


def test_outcomes_are_written_before_the_worker_ends(
    app: Treadle, connection: Connection[Any], waiting_job: WaitingJob
) -> None:
    wait_for_event, _, go = waiting_job

    async def body() -> None:
        worker = app.worker()
        await worker.start()
        await wait_for_event.aenqueue(n=1)
        async with worker.connections.outcomes.lock:  # nothing can be written now
            go.set()
            await auntil(worker.completer.unwritten)
            stopping = asyncio.create_task(worker.stop())
            await asyncio.wait({stopping}, timeout=0.5)
        await stopping
        await app.aclose()

    asyncio.run(body())
    assert one(connection, "select status from jobs") == "completed"


def test_an_exception_of_an_interrupted_handler_is_not_a_failure(app: Treadle) -> None:
    started = asyncio.Event

    @app.job(retry=Retries(0))
    async def untidy() -> None:
        begun.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            raise ValueError("could not tidy up") from None

    begun = started()

    async def body() -> Any:
        async with app.worker(grace=0):
            handle = await untidy.aenqueue()
            await begun.wait()
        row = await handle.ajob()
        await app.aclose()
        return row

    row = asyncio.run(body())
    assert (row.status, row.attempts, row.last_error) == ("pending", 0, None)


def test_a_snooze_counts_even_when_the_worker_stops(app: Treadle) -> None:
    begun = asyncio.Event()

    @app.job(retry=Retries(0))
    async def later() -> None:
        begun.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            raise Snooze("1h") from None

    async def body() -> Any:
        async with app.worker(grace=0):
            handle = await later.aenqueue()
            await begun.wait()
        row = await handle.ajob()
        await app.aclose()
        return row

    row = asyncio.run(body())
    assert (row.status, row.attempts) == ("pending", 0)
    assert (row.run_at - row.created_at).total_seconds() > 3000
