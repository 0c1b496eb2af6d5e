"""The rounds of a claimer: what each claims, and how long it waits before the next."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from psycopg import Connection

from tests.support.workers import one
from treadle import JobQueue
from treadle.db.query import Query
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection
from treadle.jobs.listeners import Listeners
from treadle.words.job import Claim
from treadle.worker import claimer as claimer_module
from treadle.worker import decision, job_source, suspects
from treadle.worker.claimer import STILL_RUNNING_SECONDS, Claimer
from treadle.worker.decision import FENCED_SECONDS, Check, Until, Wait
from treadle.worker.job_source import JobSource


class Around:
    """The worker of a claimer."""

    def __init__(self) -> None:
        self.awake = asyncio.Event()
        self.awake.set()
        self.starts, self.allowed, self.suspicious = True, True, False
        self.free_children = 1
        self.started: list[Claim] = []
        self.released: list[tuple[Claim, float | None]] = []
        self.lost_replies = 0

    def is_suspect(self, claim: Claim) -> bool:
        return self.suspicious

    def may_start(self) -> bool:
        return self.allowed

    def start_job(self, claim: Claim, _finished: Callable[[], None]) -> bool:
        self.started.append(claim)
        self.free_children -= claim.crashes
        return self.starts

    def release(self, claims: Sequence[Claim], delay: float | None = None) -> None:
        self.released += [(claim, delay) for claim in claims]

    def poll(self) -> float:
        return 7.0

    def busy(self) -> bool:
        return False

    def full(self, _claimed: int) -> None: ...

    def found_nothing(self, _claimer: Claimer, _quiet: bool) -> None: ...

    def reply_lost(self) -> None:
        self.lost_replies += 1


@asynccontextmanager
async def claiming(url: str, around: Around, limit: int = 2, **more: Any) -> AsyncIterator[Claimer]:
    connection = ReconnectingConnection(url, "treadle", "test")
    source = JobSource(connection, "worker-1", None, Listeners(), reply_lost=around.reply_lost)
    yield Claimer(around, source, ["a"], limit, **({"prefetch": 0} | more))
    await connection.close()


async def waits(claimer: Claimer) -> Wait:
    """How the claimer waits when there is nothing more to do."""
    while not isinstance(action := await claimer.step(), Wait):
        pass
    return action


def test_it_claims_while_there_is_room(url: str, queue: JobQueue) -> None:
    queue.enqueue_many("a", range(5))

    async def body() -> None:
        around = Around()
        async with claiming(url, around) as claimer:
            assert await claimer.step() == decision.Claim(2, listen=False)
            assert len(around.started) == 2
            assert await claimer.step() == Wait(math.inf, Until.ROOM)
            claimer.finish()
            assert await claimer.step() == decision.Claim(1, listen=False)
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


def jobs_arrive(claimer: Claimer, queue: JobQueue, number: int) -> None:
    """After each of its first claims another job arrives."""
    connection = claimer._source.connection

    class Arriving:
        async def run(self, query: Query[Any]) -> Any:
            nonlocal number
            answer = await connection.run(query)
            if number and "claim_work(" in query.text:
                number -= 1
                queue.enqueue("a")
            return answer

    claimer._source.connection = Arriving()  # type: ignore[assignment]


def test_while_jobs_keep_arriving_it_does_not_check_between_claims(
    url: str, queue: JobQueue, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision, "UNCHECKED_SECONDS", 3600.0)
    queue.enqueue("a")

    async def body() -> None:
        async with claiming(url, Around(), limit=10) as claimer:
            jobs_arrive(claimer, queue, 2)
            actions = [await claimer.step() for _ in range(6)]
            claims = [decision.Claim(10 - nth, listen=False) for nth in range(4)]
            assert actions == [claims[0], Check(), *claims[1:], Check()]
            wait = await claimer.step()
            assert wait == Wait(7, Until.JOBS)
            # The claim of a job alone is also a check: it asks for the next notification.
            queue.enqueue("a")
            claimer.wake()
            await claimer.wait(wait)
            assert [await claimer.step() for _ in range(2)] == [decision.Claim(7, listen=True), wait]
            assert one(connection, "select last_value from wake_clock") == 1

    asyncio.run(body())


def test_it_checks_again_although_jobs_keep_arriving(
    url: str, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision, "UNCHECKED_SECONDS", 0.0)
    monkeypatch.setattr(job_source, "CONCURRENCY_SECONDS", 0.0)
    queue.enqueue("a")

    async def body() -> None:
        async with claiming(url, Around(), limit=10) as claimer:
            jobs_arrive(claimer, queue, 3)
            actions = [await claimer.step() for _ in range(6)]
            assert list(map(type, actions)) == [decision.Claim, Check] * 3

    asyncio.run(body())


def test_a_claim_says_when_the_next_job_is_due(url: str, queue: JobQueue) -> None:
    queue.enqueue("a")

    async def body() -> None:
        async with claiming(url, Around(), limit=10) as claimer:
            wait = await waits(claimer)
            assert wait == Wait(7, Until.JOBS)
            queue.enqueue("a")
            queue.enqueue("a", delay=3)
            claimer.wake()
            await claimer.wait(wait)
            assert await claimer.step() == decision.Claim(9, listen=True)
            action = await claimer.step()
            assert isinstance(action, Wait)
            assert 2 < action.seconds < 3

    asyncio.run(body())


def test_it_checks_again_a_little_after_a_notification(
    url: str, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An enqueue at that time may have sent none."""
    monkeypatch.setattr(claimer_module, "RECHECK_SECONDS", (0.05, 0.3))

    async def body() -> None:
        async with claiming(url, Around()) as claimer:
            wait = await waits(claimer)
            assert wait == Wait(7, Until.JOBS)
            claimer.wake()
            await claimer.wait(wait)
            began, passed = time.monotonic(), []
            assert await claimer.step() == decision.Claim(2, listen=True)
            for _ in range(2):
                await claimer.wait(await waits(claimer))
                passed.append(time.monotonic() - began)
                assert await claimer.step() == Check()
            assert 0.05 <= passed[0] < 0.3 <= passed[1] < 2

    asyncio.run(body())


def test_it_waits_until_the_next_job_is_due(url: str, queue: JobQueue) -> None:
    queue.enqueue("a", delay=5)

    async def body() -> None:
        async with claiming(url, Around()) as claimer:
            assert 0 < (await waits(claimer)).seconds <= 5

    asyncio.run(body())


def test_it_claims_nothing_while_it_may_not_start_jobs(url: str, queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("a")

    async def body() -> None:
        around = Around()
        around.allowed = False
        async with claiming(url, around) as claimer:
            assert await claimer.step() == Wait(FENCED_SECONDS, Until.ALLOWED)

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
    connection.execute("select register_worker('worker-2', '1 minute', '{a,b}', null, 9, null, null, null, '{b}', 1)")
    queue.enqueue("b")
    connection.execute("select claim_jobs('worker-2', '{b}', 1)")

    async def body() -> None:
        around = Around()
        around.suspicious, around.free_children = True, 2
        async with claiming(url, around, limit=10) as claimer:
            for _ in range(3):
                await claimer.step()
            assert [len(around.started), len(around.released), len(claimer.known())] == [2, 0, 3]
            connection.execute("update jobs set status = 'completed' where job_type = 'b'")
            await claimer.step()
            assert around.released == [], "it does not ask again at once"
            claimer.suspects._asked_at = -suspects.OFFER_EVERY
            await claimer.step()
            assert [len(around.released), len(claimer.known())] == [3, 0], "another worker has a free child process"
            assert [delay for _, delay in around.released] == [None] * 3, "they keep their place"
            wait = await waits(claimer)
            claimer.wake()
            await claimer.wait(wait)
            pause = await waits(claimer)
            assert pause.until is Until.ALLOWED, "it claims nothing, so that others can"
            assert 0 < pause.seconds <= 0.1
            await claimer.wait(pause)
            claims = [claim for claim, _ in around.released]
            around.released.clear()
            claimer.take(claims)
            assert [len(around.started), len(around.released)] == [2, 0], "nobody wanted them: they wait here"
            assert claimer.known() == {claim.id for claim in claims}
            claimer.forget(claims[0])
            around.free_children += 1
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
        around.suspicious, around.free_children = True, 0
        async with claiming(url, around) as claimer:
            while len(around.started) < 2:
                await claimer.step()
            assert len(claimer.suspects.waiting) == 2
            assert [claim.crashes for claim in around.started] == [0, 0]

    asyncio.run(body())


def test_a_job_for_a_child_process_is_claimed_only_if_there_is_one(url: str, queue: JobQueue) -> None:
    queue.enqueue_many("a", range(5))

    async def body() -> None:
        around = Around()
        around.free_children = 0
        async with claiming(url, around, in_children=True) as claimer:
            wait = await waits(claimer)
            assert wait == Wait(math.inf, Until.ROOM)
            waiting = asyncio.create_task(claimer.wait(wait))
            await asyncio.sleep(0)
            around.free_children = 1
            claimer.refill()
            await asyncio.wait_for(waiting, 5)
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
            wait = await waits(claimer)
            assert 0 < wait.seconds <= 0.1
            assert around.released == []
            await claimer.wait(wait)
            assert await claimer.step() == Wait(math.inf, Until.ROOM)
            assert [delay for _, delay in around.released] == [None] * 3, "they keep their place"
            assert claimer.known() == set()

    asyncio.run(body())
