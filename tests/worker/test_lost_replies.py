"""Claims that were committed although their reply was lost."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import WaitingJob, auntil, one, run
from treadle import Treadle
from treadle.db.queries import worker as worker_queries
from treadle.db.query import Query
from treadle.db.reconnecting import ReconnectingConnection
from treadle.words.job import Claim
from treadle.worker import worker as worker_module
from treadle.worker.worker import Worker


def test_a_claimed_job_that_the_worker_does_not_know_is_found(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "LOST_REPLIES_SECONDS", 0.1)

    @app.job
    async def hello() -> int:
        return 3

    async def body(worker: Worker) -> None:
        handle = await hello.aenqueue()
        await worker.connections.claims.run(worker_queries.claim(worker.worker_id, ["hello"], 1, None))
        assert await handle.aresult(30) == 3

    run(app, body, queues=["another"])


def test_a_job_that_the_worker_knows_is_not_taken_again(app: Treadle, waiting_job: WaitingJob) -> None:
    """Running, ready, or finished and not yet written."""
    wait_for_event, began, go = waiting_job

    async def body(worker: Worker) -> None:
        handles = await wait_for_event.aenqueue_many({"n": n} for n in range(3))
        await auntil(lambda: len(worker.claimers[0].ready) == 2)
        await worker.lost_replies.take_unknown()
        await worker.lost_replies.take_unknown()
        assert (began, len(worker.claimers[0].ready)) == ([0], 2)
        async with worker.connections.outcomes.lock:  # nothing can be written now
            go.set()
            await auntil(lambda: len(worker.completer.unwritten()) == 3)
            await worker.lost_replies.take_unknown()
            assert len(worker.claimers[0].ready) == 0
        assert [await handle.aresult(30) for handle in handles] == [0, 1, 2]

    run(app, body, concurrency=1, prefetch=2, grace=0)
    assert began == [0, 1, 2]


@pytest.mark.parametrize("look", [1, 2])
def test_a_job_that_finishes_between_two_looks_is_not_taken(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    """A claim was carried out before the first look, or before the second. Its reply arrives and the job finishes while
    the reply to the look is under way."""
    ran: list[int] = []

    @app.job
    async def hello(n: int) -> None:
        ran.append(n)

    async def body(worker: Worker) -> None:
        real, looks = worker.lost_replies.find_unknown, 0

        async def claim(n: int) -> list[Claim]:
            await hello.aenqueue(n=n)
            query = worker_queries.claim(worker.worker_id, ["hello"], 1, None)
            return (await worker.connections.claims.run(query)).claims

        async def late() -> list[Claim]:
            nonlocal looks
            looks += 1
            claims = await claim(looks)
            found = await real()
            if looks == look:
                worker.claimers[0].take(claims)
                await auntil(lambda: one(connection, "select count(*) from jobs where status = 'completed'") == 1)
            return found

        monkeypatch.setattr(worker.lost_replies, "find_unknown", late)
        await worker.lost_replies.take_unknown()
        assert looks == 2
        monkeypatch.setattr(worker.lost_replies, "find_unknown", real)
        await worker.lost_replies.take_unknown()
        await auntil(lambda: one(connection, "select count(*) from jobs where status = 'completed'") == 2)

    run(app, body, queues=["another"])
    assert sorted(ran) == [1, 2]


def test_a_job_that_finishes_while_the_worker_looks_is_not_run_again(
    app: Treadle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of claimed jobs arrives late: by then some of them have run and completed."""
    ran: Counter[int] = Counter()
    real = ReconnectingConnection.run
    looked = 0

    async def late(connection: ReconnectingConnection, query: Query[Any]) -> Any:
        nonlocal looked
        if "find_claimed_jobs" in query.text and looked < 3:
            looked += 1
            beside = ReconnectingConnection(app.database.url, app.schema, "late")
            answer = await real(beside, query)
            await beside.close()
            await asyncio.sleep(0.3)  # meanwhile a dozen of the jobs run
            return answer
        return await real(connection, query)

    monkeypatch.setattr(ReconnectingConnection, "run", late)

    @app.job
    async def hello(n: int) -> None:
        ran[n] += 1
        await asyncio.sleep(0.05)

    async def body(worker: Worker) -> None:
        handles = await hello.aenqueue_many({"n": n} for n in range(40))
        await auntil(lambda: ran)
        for _ in range(3):
            await worker.lost_replies.take_unknown()
        for handle in handles:
            await handle.aresult(30)

    run(app, body, concurrency=2, prefetch=10)
    assert looked
    assert set(ran.values()) == {1}
