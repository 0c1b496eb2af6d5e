"""Odd moments: a fence that lifts, threads that never end, answers in the wrong order, messages from strangers."""

import asyncio
import threading
import time
from collections import Counter
from contextvars import ContextVar
from functools import partial
from typing import Any

import psutil
import psycopg
import pytest
from psycopg import Connection
from psycopg_pool import AsyncConnectionPool

from tests.workers import auntil, auntil_resting, run
from treadle import Backoff, Job, JobFailed, JobQueue, Snooze, Treadle, events
from treadle.db import work
from treadle.db.line import DatabaseAway, Line
from treadle.db.query import Query
from treadle.words.clock import now
from treadle.worker import Worker


def test_a_worker_goes_on_after_its_fence_lifts(app: Treadle) -> None:
    fenced: list[events.Event] = []
    app.on(events.WorkerFenced)(fenced.append)

    @app.job
    async def hello(n: int) -> int:
        return n

    async def body(worker: Worker) -> None:
        assert await (await hello.aenqueue(n=0)).aresult(30) == 0
        keeper = psutil.Process(worker.keeper_pid)
        keeper.suspend()
        try:
            await auntil(lambda: fenced)
            # A claim that was under way, or found later: not begun, and given back.
            handles = [await hello.aenqueue(n=n) for n in range(5)]
            claims = await worker._claims.run(work.claim("treadle", worker.worker_id, ["hello"], 2, None))
            assert len(claims) == 2
            worker._intakes[0].take(claims)
            assert len(worker.bench) == 0
        finally:
            keeper.resume()
        assert [await handle.aresult(30) for handle in handles] == list(range(5))
        assert {(await handle.ajob()).attempts for handle in handles} == {1}

    run(app, body, lease="2s", concurrency=3, keeper_process=True)


def test_a_deadline_without_a_timeout(app: Treadle) -> None:
    over = threading.Event()

    @app.job(deadline=0.2, max_attempts=1)
    async def sleepy() -> None:
        await asyncio.sleep(30)

    @app.job(deadline=0.2, max_attempts=1)
    def deaf() -> None:
        over.wait(30)

    async def body(worker: Worker) -> None:
        for job in (sleepy, deaf):
            with pytest.raises(JobFailed, match=r"(timed out|still ran at its deadline,) after 0\.2 seconds"):
                await (await job.aenqueue()).aresult(30)
        over.set()
        await auntil(lambda: len(worker.bench) == 0)

    run(app, body, concurrency=2)


def test_a_job_does_not_run_again_beside_a_thread_of_it_that_never_ended(app: Treadle) -> None:
    at_once, most, ended = 0, 0, threading.Event()
    lock = threading.Lock()

    @app.job(deadline=0.2, timeout=0.1, max_attempts=5, backoff=Backoff(first=0))
    def deaf(job: Job) -> int:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        if job.fence == 1:
            ended.wait(1.5)
        with lock:
            at_once -= 1
        return job.fence

    async def body(worker: Worker) -> None:
        handle = await deaf.aenqueue()
        assert await handle.aresult(30) > 1
        await auntil(lambda: len(worker.bench) == 0)
        assert worker._intakes[0].running == 0
        assert worker._board.entries() == []

    run(app, body, concurrency=3)
    assert most == 1


def test_a_full_worker_starts_each_job_in_a_context_of_its_own(app: Treadle) -> None:
    tenant: ContextVar[int | None] = ContextVar("tenant", default=None)

    @app.job
    async def remembers(n: int) -> int | None:
        before = tenant.get()
        tenant.set(n)
        await asyncio.sleep(0)
        return before

    async def body(worker: Worker) -> None:
        handles = await remembers.aenqueue_many({"n": n} for n in range(20))
        assert [await handle.aresult(30) for handle in handles] == [None] * 20

    run(app, body, concurrency=1)


def test_what_a_handler_raises_because_it_was_stopped_is_not_its_failure(app: Treadle) -> None:
    started = asyncio.Event

    @app.job(max_attempts=1)
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


def test_a_verdict_counts_even_when_the_worker_stops(app: Treadle) -> None:
    begun = asyncio.Event()

    @app.job(max_attempts=1)
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


def test_strangers_messages_do_no_harm(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    async def hello() -> str:
        return "hello"

    async def body(worker: Worker) -> None:
        await auntil(lambda: worker.hears)
        for kind in ("work", "ends"):
            for message in ("cancelled nonsense", "cancelled", "probe", "nonsense", "\u2603"):
                connection.execute("select pg_notify(channel(%s), %s)", [kind, message])
        for _ in range(3):
            assert await (await hello.aenqueue()).aresult(30) == "hello"
            connection.execute("select pg_notify(channel('ends'), 'nonsense')")

    run(app, body)


@pytest.mark.parametrize(
    "function", ["complete_jobs", "settle_jobs", "claim_jobs", "rest", "renew_workers", "start_jobs"]
)
def test_a_function_that_is_missing_for_a_while_costs_nothing(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """As while somebody migrates."""
    real, refused = Line.run, 0

    async def counted(line: Line, query: Query[Any]) -> Any:
        nonlocal refused
        try:
            return await real(line, query)
        except DatabaseAway:
            refused += f"{function}(".encode() in query.text
            raise

    monkeypatch.setattr(Line, "run", counted)

    go = asyncio.Event()

    @app.job(max_attempts=3, backoff=Backoff(first=0))
    async def hello(job: Job, n: int) -> int:
        if n % 3 == 0 and job.attempt == 1:
            raise ValueError("the first time")
        if function == "start_jobs" and n % 2:
            await go.wait()  # until it was to be reported as running, twice
        return n

    async def body(worker: Worker) -> None:
        def missed() -> bool:
            if function == "renew_workers":  # another process does that, three times in the lease of 3 seconds
                return now() - worker._board.renewed_at > 1.5
            return refused > 1

        handles = [await hello.aenqueue(n=n) for n in range(6)]
        connection.execute(f"alter function {function} rename to {function}_away")
        try:
            handles += [await hello.aenqueue(n=n) for n in range(6, 12)]
            await auntil(missed)
        finally:
            connection.execute(f"alter function {function}_away rename to {function}")
            go.set()
        assert [await handle.aresult(30) for handle in handles] == list(range(12))

    run(app, body, lease="3s", keeper_process=function == "renew_workers")


def test_what_ends_while_holdings_are_looked_at_is_not_run_again(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to "what do I hold" arrives late: by then some of it was claimed, run and completed."""
    ran: Counter[int] = Counter()
    real = Line.run
    looked = 0

    async def late(line: Line, query: Query[Any]) -> Any:
        nonlocal looked
        if b"held_jobs" in query.text and looked < 3:
            looked += 1
            beside = Line(app.database.url, "late")
            answer = await real(beside, query)
            await beside.close()
            await asyncio.sleep(0.3)  # meanwhile a dozen of the jobs run
            return answer
        return await real(line, query)

    monkeypatch.setattr(Line, "run", late)

    @app.job
    async def hello(n: int) -> None:
        ran[n] += 1
        await asyncio.sleep(0.05)

    async def body(worker: Worker) -> None:
        handles = await hello.aenqueue_many({"n": n} for n in range(40))
        await auntil(lambda: ran)
        for _ in range(3):
            await worker._adopt()
        for handle in handles:
            await handle.aresult(30)

    run(app, body, concurrency=2, prefetch=10)
    assert looked
    assert set(ran.values()) == {1}


def test_a_result_is_awaited_on_a_pool_of_the_callers(url: str, queue: JobQueue) -> None:
    async def body() -> None:
        async with AsyncConnectionPool[psycopg.AsyncConnection[Any]](url, open=False) as pool:
            app = Treadle(pool)

            @app.job
            async def hello() -> int:
                return 3

            handle = await hello.aenqueue()
            asked = pool.get_stats()["requests_num"]
            waiting = asyncio.create_task(handle.aresult(30))
            await auntil(lambda: pool.get_stats()["requests_num"] > asked)  # it has looked, in vain
            (row,) = await asyncio.to_thread(queue.claim, ["hello"])
            await asyncio.to_thread(queue.complete, row, 4)
            assert await waiting == 4
            with pytest.raises(TimeoutError):
                await (await hello.aenqueue()).aresult(0.3)

    asyncio.run(body())


def test_the_second_of_two_quick_jobs_does_not_wait_for_the_poll(app: Treadle, connection: Connection[Any]) -> None:
    """Who enqueues right after somebody rang does not ring again. Here it commits after the worker went to rest."""
    seen: dict[int, float] = {}

    @app.job
    async def hello(n: int) -> None:
        seen[n] = time.monotonic()

    async def body(worker: Worker) -> None:
        await auntil(lambda: worker.hears)
        for first in range(0, 100, 2):
            await auntil_resting(worker)
            with psycopg.connect(app.database.url) as late:
                await hello.aenqueue(n=first)
                late.execute("select treadle.enqueue('hello', jsonb_build_object('n', %s::int))", [first + 1])
                await auntil(partial(seen.__contains__, first))
                # It has gone to rest after that, and looks again after 25 and 100 ms: in time for a commit, not later.
                await asyncio.sleep(0.01)
                late.commit()
                committed = time.monotonic()
            in_time = committed - seen[first] < 0.08
            if not in_time:  # a busy machine; that one has to be fetched
                worker._intakes[0].bell.set()
            await auntil(partial(seen.__contains__, first + 1))
            if in_time:
                assert seen[first + 1] - committed < 5
                return
        pytest.fail("it was never quick enough to commit in time")

    run(app, body, poll="60s")
