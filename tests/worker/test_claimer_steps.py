"""The rounds of a claimer: what each claims, and how long it waits before the next."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import accumulate
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import one
from treadle import JobQueue
from treadle.app.listeners import Listeners
from treadle.db.query import Query
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection
from treadle.words.claim import Claim
from treadle.worker import claimer as claimer_module
from treadle.worker import due_check as due_check_module
from treadle.worker import suspects
from treadle.worker.claimer import FENCED_SECONDS, RECHECK_SECONDS, STILL_RUNNING_SECONDS, Claimer
from treadle.worker.due_check import DueCheck


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
    options: dict[str, Any] = {"limit": 2, "start": around.start, "prefetch": 0}
    yield Claimer(
        connection,
        "worker-1",
        ["a"],
        None,
        release=around.release,
        may_start=lambda: around.may_start,
        poll=lambda: 7.0,
        listeners=Listeners(),
        unavailable=lambda _: None,
        reply_lost=around.reply_lost,
        **(options | more),
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


def count_statements(claimer: Claimer, queue: JobQueue, arriving: int) -> list[str]:
    """What the claimer sends from now on. After each of its first claims another job arrives."""
    connection, statements = claimer.connection, list[str]()

    class Arriving:
        async def run(self, query: Query[Any]) -> Any:
            nonlocal arriving
            statements.append("check" if "next_due(" in query.text else "claim")
            answer = await connection.run(query)
            if statements[-1] == "claim" and arriving:
                arriving -= 1
                queue.enqueue("a")
            return answer

    claimer.connection = Arriving()  # type: ignore[assignment]
    claimer._due_check = DueCheck(claimer.connection, "worker-1", None, False)
    return statements


def test_while_jobs_keep_arriving_it_does_not_check_between_claims(
    url: str, queue: JobQueue, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claimer_module, "UNCHECKED_SECONDS", 3600.0)
    queue.enqueue("a")

    async def body() -> None:
        async with claiming(url, Around(), limit=10) as claimer:
            statements = count_statements(claimer, queue, arriving=2)
            assert [await claimer.step() for _ in range(3)] == [0, 0, 0]
            assert statements == ["claim", "check", "claim", "claim"]
            assert await claimer.step() > 0
            assert statements[4:] == ["claim", "check"]
            # The claim of a job alone is also a check: it asks for the next notification.
            queue.enqueue("a")
            claimer.wake()
            assert await claimer.step(woken=True) > 0
            assert statements[6:] == ["claim"]
            assert one(connection, "select last_value from wake_clock") == 1

    asyncio.run(body())


def test_it_checks_again_although_jobs_keep_arriving(
    url: str, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claimer_module, "UNCHECKED_SECONDS", 0.0)
    monkeypatch.setattr(due_check_module, "CONCURRENCY_SECONDS", 0.0)
    queue.enqueue("a")

    async def body() -> None:
        async with claiming(url, Around(), limit=10) as claimer:
            statements = count_statements(claimer, queue, arriving=3)
            assert [await claimer.step() for _ in range(3)] == [0, 0, 0]
            assert statements == ["claim", "check"] * 3

    asyncio.run(body())


def test_a_claim_says_when_the_next_job_is_due(url: str, queue: JobQueue) -> None:
    queue.enqueue("a")

    async def body() -> None:
        async with claiming(url, Around(), limit=10) as claimer:
            statements = count_statements(claimer, queue, arriving=0)
            assert await claimer.step() == 7
            queue.enqueue("a")
            queue.enqueue("a", delay=3)
            claimer.wake(recheck=False)
            assert 2 < await claimer.step(woken=True) < 3
            assert statements == ["claim", "check", "claim"]

    asyncio.run(body())


def test_without_jobs_it_waits_for_the_poll(url: str, queue: JobQueue) -> None:
    async def body() -> None:
        async with claiming(url, Around()) as claimer:
            assert await claimer.step() == 7
            # After a notification it looks again soon: an enqueue at that time may have sent none.
            waits = [await claimer.step(woken=True), *[await claimer.step() for _ in RECHECK_SECONDS]]
            assert list(accumulate(waits[:-1])) == pytest.approx(list(RECHECK_SECONDS))
            assert waits[-1] == 7

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


def test_suspects_start_only_in_free_child_processes_and_the_others_are_offered(
    url: str, queue: JobQueue, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker would run them one after the other, while others have child processes for them."""
    monkeypatch.setattr(suspects, "OFFER_SECONDS", 0.1)
    queue.enqueue_many("a", range(5))
    connection.execute("update jobs set crashes = 1")
    free = 2

    async def body() -> None:
        nonlocal free
        around = Around()

        def start(claim: Claim, finished: Callable[[], None]) -> bool:
            nonlocal free
            free -= 1
            return around.start(claim, finished)

        suspicions: dict[str, Any] = {"free_children": lambda: free, "is_suspect": lambda _: True}
        async with claiming(url, around, start=start, limit=10, **suspicions) as claimer:
            await claimer.step()
            assert [len(around.started), len(around.released), len(claimer.known())] == [2, 3, 0]
            assert [delay for _, delay in around.released] == [None] * 3, "they keep their place"
            pause = await claimer.step()
            assert 0 < pause <= 0.1, "it claims nothing, so that others can"
            await asyncio.sleep(pause)
            claims = [claim for claim, _ in around.released]
            around.released.clear()
            claimer.take(claims)
            assert [len(around.started), len(around.released)] == [2, 0], "nobody wanted them: they wait here"
            assert claimer.known() == {claim.id for claim in claims}
            claimer.forget(claims[0])
            free += 1
            claimer.finish()
            assert [claim.id for claim in around.started[2:]] == [claims[1].id]
            monkeypatch.setattr(suspects, "OFFER_EVERY", 0.0)
            await claimer.step()
            assert around.released == [(claims[2], None)], "they are offered again after some time"

    asyncio.run(body())


def test_suspects_take_no_room_from_other_jobs(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue_many("a", range(2))
    connection.execute("update jobs set crashes = 1")
    queue.enqueue_many("a", range(5))

    async def body() -> None:
        around = Around()
        suspicions: dict[str, Any] = {"free_children": lambda: 0, "is_suspect": lambda claim: claim.crashes > 0}
        async with claiming(url, around, **suspicions) as claimer:
            claimer.suspects._offered_at = time.monotonic() - 1.0
            for _ in range(2):
                await claimer.step()
            assert len(claimer.suspects.waiting) == 2
            assert [claim.crashes for claim in around.started] == [0, 0]

    asyncio.run(body())


def test_a_job_for_a_child_process_is_claimed_only_if_there_is_one(url: str, queue: JobQueue) -> None:
    queue.enqueue_many("a", range(5))
    free = 0

    async def body() -> None:
        nonlocal free
        around = Around()
        async with claiming(url, around, apart=True, free_children=lambda: free) as claimer:
            assert await claimer.step() == math.inf
            assert around.started == []
            free = 1
            claimer.refill()
            await claimer.step()
            assert len(around.started) == 1

    asyncio.run(body())


def test_jobs_claimed_ahead_that_cannot_start_are_given_back(
    url: str, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quick jobs were followed by long ones: another worker may have room."""
    monkeypatch.setattr(claimer_module, "STALLED_SECONDS", 0.1)
    queue.enqueue_many("a", range(5))

    async def body() -> None:
        around = Around()
        async with claiming(url, around, prefetch=None) as claimer:
            claimer._prefetch.size = lambda: 3  # type: ignore[method-assign]
            await claimer.step()
            assert [len(around.started), len(claimer.ready)] == [2, 3]
            claimer._prefetch.size = lambda: 0  # type: ignore[method-assign]
            delay = await claimer.step()
            assert 0 < delay <= 0.1
            assert around.released == []
            await asyncio.sleep(delay)
            assert await claimer.step() == math.inf
            assert [delay for _, delay in around.released] == [None] * 3, "they keep their place"
            assert claimer.known() == set()

    asyncio.run(body())
