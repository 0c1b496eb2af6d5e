"""The rounds of a claimer: what each claims, and how long it waits before the next."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import one
from treadle import JobQueue
from treadle.app.listeners import Listeners
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection
from treadle.words.claim import Claim
from treadle.worker.claimer import FENCED_SECONDS, RECHECK_SECONDS, STILL_RUNNING_SECONDS, Claimer


class Around:
    """What a claimer knows of its worker."""

    def __init__(self) -> None:
        self.may_start = True
        self.starts = True
        self.started: list[Claim] = []
        self.released: list[tuple[Claim, float | None]] = []
        self.lost_replies = 0

    def start(self, claim: Claim, _finished: Callable[[], None]) -> bool:
        self.started.append(claim)
        return self.starts

    def release(self, claims: Sequence[Claim], delay: float | None) -> None:
        self.released += [(claim, delay) for claim in claims]

    def reply_lost(self) -> None:
        self.lost_replies += 1


@asynccontextmanager
async def claiming(url: str, around: Around, **more: Any) -> AsyncIterator[Claimer]:
    connection = ReconnectingConnection(url, "treadle", "test")
    yield Claimer(
        connection,
        "worker-1",
        ["a"],
        None,
        limit=2,
        start=around.start,
        release=around.release,
        may_start=lambda: around.may_start,
        poll=lambda: 7.0,
        listeners=Listeners(),
        unavailable=lambda _: None,
        reply_lost=around.reply_lost,
        **({"prefetch": 0} | more),
    )
    await connection.close()


def test_it_claims_while_there_is_room(url: str, queue: JobQueue) -> None:
    queue.enqueue_many("a", range(5))

    async def body() -> None:
        around = Around()
        async with claiming(url, around) as claimer:
            assert await claimer.step() == 0, "there may be more"
            assert len(around.started) == 2
            assert await claimer.step() == math.inf, "until a job finishes"
            claimer.finish()
            assert await claimer.step() == 0
            assert len(around.started) == 3

    asyncio.run(body())


def test_what_is_ready_is_started_as_jobs_finish(url: str, queue: JobQueue) -> None:
    queue.enqueue_many("a", range(5))

    async def body() -> None:
        around = Around()
        async with claiming(url, around, prefetch=3) as claimer:
            await claimer.step()
            assert (len(around.started), len(claimer.ready)) == (2, 3)
            claimer.finish()
            assert (len(around.started), len(claimer.ready)) == (3, 2)
            claimer.release_ready()
            assert [delay for _, delay in around.released] == [None, None]
            assert len(claimer.ready) == 0

    asyncio.run(body())


def test_without_jobs_it_waits_for_the_poll(url: str, queue: JobQueue) -> None:
    async def body() -> None:
        async with claiming(url, Around()) as claimer:
            assert await claimer.step() == 7
            # After a notification it looks again soon: an enqueue at that time may have sent none.
            assert [await claimer.step(woken=True), await claimer.step()] == [RECHECK_SECONDS, 7]

    asyncio.run(body())


def test_it_waits_until_the_next_job_is_due(url: str, queue: JobQueue) -> None:
    queue.enqueue("a", delay=5)

    async def body() -> None:
        async with claiming(url, Around()) as claimer:
            assert 0 < await claimer.step() <= 5

    asyncio.run(body())


def test_it_claims_nothing_while_it_may_not_start_jobs(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("a")

    async def body() -> None:
        around = Around()
        around.may_start = False
        async with claiming(url, around) as claimer:
            assert await claimer.step() == FENCED_SECONDS

    asyncio.run(body())
    assert one(connection, "select status from jobs") == "pending"


def test_a_job_that_still_runs_here_is_given_back_for_a_while(url: str, queue: JobQueue) -> None:
    queue.enqueue("a")

    async def body() -> None:
        around = Around()
        around.starts = False
        async with claiming(url, around) as claimer:
            await claimer.step()
            assert around.released == [(around.started[0], STILL_RUNNING_SECONDS)]
            assert claimer.running == 0

    asyncio.run(body())


def test_a_failed_claim_may_have_been_carried_out(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    async def body() -> None:
        around = Around()
        async with claiming(url, around) as claimer:
            connection.execute("alter function claim_work rename to claim_work_away")
            try:
                with pytest.raises(DatabaseUnavailable):
                    await claimer.step()
            finally:
                connection.execute("alter function claim_work_away rename to claim_work")
            assert around.lost_replies == 1

    asyncio.run(body())
