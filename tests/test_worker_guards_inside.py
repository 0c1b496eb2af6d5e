"""Guards of a worker inside a program, for the jobs that it holds: each of these goes red when its guard is removed."""

import asyncio
import sys
import threading
import time
import traceback
from typing import Any

import psutil
import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.workers import Parked, auntil, lose_worker, one, run
from treadle import Job, JobFailed, JobQueue, Treadle, events
from treadle.db import work
from treadle.db.line import DatabaseAway, Line
from treadle.db.query import Query
from treadle.words.outcome import Interrupt
from treadle.worker import Worker
from treadle.worker.intake import TURN


@pytest.mark.parametrize(("prefetch", "held"), [(0, 2), (3, 5), (None, 2)])
def test_no_more_is_held_than_was_asked_for(
    app: Treadle, connection: Connection[Any], parked: Parked, prefetch: int | None, held: int
) -> None:
    """Of long jobs none is held ready by itself: another worker could begin it meanwhile."""
    park, began, go = parked

    async def body(worker: Worker) -> None:
        handles = await park.aenqueue_many({"n": n} for n in range(8))
        await auntil(lambda: len(began) == 2)
        await auntil(lambda: not worker._claims._turn.locked())
        assert one(connection, "select count(*) from jobs where worker_id is not null") == held
        assert len(began) == 2
        go.set()
        assert [await handle.aresult(30) for handle in handles] == list(range(8))

    run(app, body, concurrency=2, prefetch=prefetch, grace=0)


def test_everything_is_stopped_and_given_back_at_the_fence(
    app: Treadle, connection: Connection[Any], parked: Parked
) -> None:
    fenced: list[events.Event] = []
    app.on(events.WorkerFenced)(fenced.append)
    park, began, _ = parked

    async def body(worker: Worker) -> None:
        await park.aenqueue_many({"n": n} for n in range(3))
        await auntil(lambda: len(worker._intakes[0].ready) == 2)
        keeper = psutil.Process(worker.keeper_pid)
        keeper.suspend()
        try:
            await auntil(lambda: fenced)
            await auntil(lambda: len(worker.bench) == 0)
            await auntil(
                lambda: one(connection, "select count(*) from jobs where status = 'pending' and attempts = 0") == 3
            )
            await asyncio.sleep(0.2)  # an intake that may not start looks again every 0.05
            assert one(connection, "select max(lease + crashes) from jobs") == 1, "nothing is claimed behind the fence"
            assert began == [0]
        finally:
            keeper.resume()

    run(app, body, lease="3s", concurrency=1, prefetch=2, grace=0, keeper_process=True)


def test_what_was_not_begun_is_given_back_at_the_end(app: Treadle, connection: Connection[Any], parked: Parked) -> None:
    park, began, go = parked

    async def body() -> None:
        worker = app.worker(concurrency=1, prefetch=2)
        await worker.start()
        await park.aenqueue_many({"n": n} for n in range(3))
        await auntil(lambda: len(worker._intakes[0].ready) == 2)
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
    app: Treadle, connection: Connection[Any], parked: Parked
) -> None:
    park, began, _ = parked

    async def body(worker: Worker) -> None:
        await park.aenqueue(n=1)
        claims = await worker._claims.run(work.claim("treadle", worker.worker_id, ["park"], 1, None))
        worker._stopping = True
        worker._intakes[0].take(claims)
        await auntil(lambda: one(connection, "select status from jobs") == "pending")

    run(app, body, queues=["another"], grace=0)
    assert began == []


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the first step is taken as the job is started, from 3.12 on")
@pytest.mark.parametrize("place", ["loop", "thread"])
def test_a_job_that_is_stopped_before_its_first_step_does_not_take_it(
    app: Treadle, connection: Connection[Any], place: str
) -> None:
    began: list[str] = []

    @app.job
    async def on_the_loop() -> None:
        began.append("loop")

    @app.job
    def on_a_thread() -> None:
        began.append("thread")

    async def body(worker: Worker) -> None:
        job = on_the_loop if place == "loop" else on_a_thread
        await job.aenqueue()
        claims = await worker._claims.run(work.claim("treadle", worker.worker_id, [job.name], 1, None))
        worker._intakes[0].take(claims)
        worker.bench.interrupt_all(Interrupt.SHUTDOWN)
        await auntil(lambda: len(worker.bench) == 0)
        await auntil(lambda: one(connection, "select status from jobs") == "pending")
        assert one(connection, "select attempts from jobs") == 0

    run(app, body, queues=["another"])
    assert began == []


def test_a_handler_that_tidies_up_is_not_stopped_again(app: Treadle) -> None:
    begun, go = asyncio.Event(), asyncio.Event()
    tidied: list[bool] = []

    @app.job
    async def tidy() -> None:
        try:
            begun.set()
            await asyncio.sleep(30)
        finally:
            begun.clear()
            await go.wait()
            tidied.append(True)

    async def body(worker: Worker) -> None:
        handle = await tidy.aenqueue()
        await begun.wait()
        worker.bench.interrupt(handle.id, Interrupt.CANCELLED)
        await auntil(lambda: not begun.is_set())
        worker.bench.interrupt(handle.id, Interrupt.LEASE_LOST)
        await asyncio.sleep(0)  # a second cancellation would arrive in this step of the loop
        go.set()
        await auntil(lambda: len(worker.bench) == 0)

    run(app, body)
    assert tidied == [True]


def test_a_suspect_that_no_other_process_can_find_runs_where_it_belongs(
    app: Treadle, connection: Connection[Any]
) -> None:
    @app.job(max_attempts=1)
    async def local() -> int:
        return 3

    handle = local.enqueue()
    connection.execute("update jobs set crashes = 1")

    async def body(worker: Worker) -> None:
        assert await handle.aresult(30) == 3

    run(app, body)


def test_after_an_outage_nobody_is_given_up_at_once(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    """Those who live have to be able to say so first."""

    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        worker.away(DatabaseAway("for a while"))
        lose_worker(connection)
        connection.execute("update workers set seen_at = clock_timestamp() where worker_id <> 'gone'")
        queue.enqueue("a")
        connection.execute("select claim_jobs('gone', '{a}')")
        await worker._recover()
        assert one(connection, "select status from jobs") == "claimed"
        worker._healthy_since -= 61
        await worker._recover()
        assert one(connection, "select status from jobs") == "pending"

    run(app, body, lease="60s")


def test_an_outcome_that_cannot_be_stored_fails_its_job_alone(app: Treadle, connection: Connection[Any]) -> None:
    go = asyncio.Event()
    began: list[int] = []

    @app.job
    async def returns(n: int) -> int:
        began.append(n)
        await go.wait()
        return n

    async def body(worker: Worker) -> None:
        handles = [await returns.aenqueue(n=n) for n in range(12, 15)]
        await auntil(lambda: len(began) == 3)
        go.set()  # they end together, and are written together
        assert await handles[0].aresult(30) == 12
        with pytest.raises(JobFailed, match=r"the outcome \(completed\) could not be stored: CheckViolation"):
            await handles[1].aresult(30)
        assert await handles[2].aresult(30) == 14

    connection.execute("alter table jobs add constraint no_luck check (result is distinct from '13')")
    try:
        run(app, body)
    finally:
        connection.execute("alter table jobs drop constraint no_luck")


def test_a_thread_past_its_deadline_has_no_second_outcome(app: Treadle) -> None:
    over = threading.Event()
    lost: list[events.Event] = []
    app.on(events.LeaseWasLost)(lost.append)

    @app.job(timeout=0.05, deadline=0.1, max_attempts=1)
    def deaf() -> None:
        over.wait(30)

    async def body(worker: Worker) -> None:
        with pytest.raises(JobFailed, match="still ran at its deadline"):
            await (await deaf.aenqueue()).aresult(30)
        over.set()
        await auntil(lambda: len(worker.bench) == 0)
        await worker._completer.flushed()

    run(app, body)
    assert lost == []


def test_progress_that_could_not_be_told_is_told_again(app: Treadle, connection: Connection[Any]) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def tells(job: Job) -> None:
        job.progress(40, "halfway")
        begun.set()
        await go.wait()

    async def body(worker: Worker) -> None:
        async def refused() -> bool:
            """Not if the worker's own report has just taken what there is to tell."""
            try:
                await worker.bench.report(worker._outcomes)
            except DatabaseAway:
                return True
            return False

        connection.execute("alter function start_jobs rename to start_jobs_away")
        try:
            handle = await tells.aenqueue()
            await begun.wait()
            await auntil(refused)
        finally:
            connection.execute("alter function start_jobs_away rename to start_jobs")
        await auntil(lambda: one(connection, "select progress from jobs") == 40)
        assert (await handle.aprogress()).stage == "halfway"
        go.set()

    run(app, body)


def test_a_job_that_somebody_else_has_locked_is_not_asked_for_all_the_time(
    app: Treadle, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, statements = Line.run, 0

    async def counted(line: Line, query: Query[Any]) -> Any:
        nonlocal statements
        statements += 1
        return await real(line, query)

    monkeypatch.setattr(Line, "run", counted)

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


def test_jobs_that_end_at_once_neither_nest_nor_keep_others_from_the_loop(app: Treadle) -> None:
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
