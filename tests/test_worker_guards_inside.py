"""Guards of a worker inside a program: each of these goes red when its guard is removed."""

import asyncio
import logging
import threading
from datetime import timedelta
from typing import Any

import psutil
import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.test_worker import run, until
from tests.test_worker_guards import lose_worker, one
from tests.test_worker_outages import Proxy
from tests.waiting import until_blocked
from treadle import Job, JobFailed, JobQueue, Treadle, events
from treadle.db import work
from treadle.db.line import DatabaseAway, Line
from treadle.db.query import Query
from treadle.words.claim import Claim
from treadle.words.outcome import Interrupt
from treadle.worker import Worker
from treadle.worker import worker as worker_module
from treadle.worker.board import Board, now
from treadle.worker.keeper import Keeper


@pytest.fixture
def app(url: str) -> Treadle:
    return Treadle(url)


@pytest.fixture
def parked(app: Treadle) -> tuple[Any, list[int], asyncio.Event]:
    """A job that runs until it is let go; which of them began; and what lets them go."""
    began: list[int] = []
    go = asyncio.Event()

    @app.job(max_attempts=1)
    async def park(n: int) -> int:
        began.append(n)
        await go.wait()
        return n

    return park, began, go


Parked = tuple[Any, list[int], asyncio.Event]


@pytest.mark.parametrize(("prefetch", "held"), [(0, 2), (3, 5), (None, 2)])
def test_no_more_is_held_than_was_asked_for(
    app: Treadle, connection: Connection[Any], parked: Parked, prefetch: int | None, held: int
) -> None:
    """Of long jobs none is held ready by itself: another worker could begin it meanwhile."""
    park, began, go = parked

    async def body(worker: Worker) -> None:
        handles = await park.aenqueue_many({"n": n} for n in range(8))
        await until(lambda: len(began) == 2)
        await until(lambda: not worker._claims._turn.locked())
        assert one(connection, "select count(*) from jobs where worker_id is not null") == held
        assert len(began) == 2
        go.set()
        assert [await handle.aresult(10) for handle in handles] == list(range(8))

    run(app, body, concurrency=2, prefetch=prefetch, grace=0)


def test_everything_is_stopped_and_given_back_at_the_fence(
    app: Treadle, connection: Connection[Any], parked: Parked
) -> None:
    fenced: list[events.Event] = []
    app.on(events.WorkerFenced)(fenced.append)
    park, began, _ = parked

    async def body(worker: Worker) -> None:
        await park.aenqueue_many({"n": n} for n in range(3))
        await until(lambda: len(worker._intakes[0].ready) == 2)
        keeper = psutil.Process(worker.keeper_pid)
        keeper.suspend()
        try:
            await until(lambda: fenced)
            await until(lambda: len(worker.bench) == 0, 0.5)
            await until(
                lambda: one(connection, "select count(*) from jobs where status = 'pending' and attempts = 0") == 3
            )
            await asyncio.sleep(0.2)
            assert one(connection, "select max(lease + crashes) from jobs") == 1, "nothing is claimed behind the fence"
            assert began == [0]
        finally:
            keeper.resume()

    run(app, body, lease="1s", concurrency=1, prefetch=2, grace=0)


def test_what_was_not_begun_is_given_back_at_the_end(app: Treadle, connection: Connection[Any], parked: Parked) -> None:
    park, began, go = parked

    async def body() -> None:
        worker = app.worker(concurrency=1, prefetch=2)
        await worker.start()
        await park.aenqueue_many({"n": n} for n in range(3))
        await until(lambda: len(worker._intakes[0].ready) == 2)
        stopping = asyncio.create_task(worker.stop())
        await until(lambda: one(connection, "select count(*) from jobs where status = 'pending' and attempts = 0") == 2)
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
        await until(lambda: one(connection, "select status from jobs") == "pending")

    run(app, body, queues=["another"], grace=0)
    assert began == []


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
        await until(lambda: len(worker.bench) == 0)
        await until(lambda: one(connection, "select status from jobs") == "pending")
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
        await until(lambda: not begun.is_set())
        worker.bench.interrupt(handle.id, Interrupt.LEASE_LOST)
        await asyncio.sleep(0)
        go.set()
        await until(lambda: len(worker.bench) == 0)

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
        assert await handle.aresult(10) == 3

    run(app, body)


def test_after_an_outage_nobody_is_given_up_at_once(app: Treadle, queue: JobQueue, connection: Connection[Any]) -> None:
    """Those who live have to be able to say so first."""

    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        worker._away(DatabaseAway("for a while"))
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
        await until(lambda: len(began) == 3)
        go.set()  # they end together, and are written together
        assert await handles[0].aresult(10) == 12
        with pytest.raises(JobFailed, match=r"the outcome \(completed\) could not be stored: CheckViolation"):
            await handles[1].aresult(10)
        assert await handles[2].aresult(10) == 14

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
            await (await deaf.aenqueue()).aresult(10)
        over.set()
        await until(lambda: len(worker.bench) == 0)
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
        signature = "(varchar, uuid[], bigint[], float8[], int[], varchar[])"
        connection.execute(f"alter function start_jobs{signature} rename to start_jobs_away".encode())
        try:
            handle = await tells.aenqueue()
            await begun.wait()
            with pytest.raises(DatabaseAway):
                await worker.bench.report(worker._outcomes)
        finally:
            connection.execute(f"alter function start_jobs_away{signature} rename to start_jobs".encode())
        await until(lambda: one(connection, "select progress from jobs") == 40)
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
        await asyncio.sleep(0.5)
        assert statements < 60
        holder.rollback()
        assert await handle.aresult(10) == "hello"

    run(app, body)


# Services


def test_what_a_worker_holds_without_knowing_is_taken_up_by_and_by(
    app: Treadle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "ADOPT_SECONDS", 0.1)

    @app.job
    async def hello() -> int:
        return 3

    async def body(worker: Worker) -> None:
        handle = await hello.aenqueue()
        await worker._claims.run(work.claim("treadle", worker.worker_id, ["hello"], 1, None))
        assert await handle.aresult(10) == 3

    run(app, body, queues=["another"])


def test_what_a_worker_knows_is_not_taken_up_again(app: Treadle, parked: Parked) -> None:
    """Running, ready, or ended and not written yet."""
    park, began, go = parked

    async def body(worker: Worker) -> None:
        handles = await park.aenqueue_many({"n": n} for n in range(3))
        await until(lambda: len(worker._intakes[0].ready) == 2)
        await worker._adopt()
        await worker._adopt()
        assert (began, len(worker._intakes[0].ready)) == ([0], 2)
        async with worker._outcomes._turn:  # nothing can be written now
            go.set()
            await until(lambda: len(worker._completer.unwritten()) == 3)
            await worker._adopt()
            assert len(worker._intakes[0].ready) == 0
        assert [await handle.aresult(10) for handle in handles] == [0, 1, 2]

    run(app, body, concurrency=1, prefetch=2, grace=0)
    assert began == [0, 1, 2]


@pytest.mark.parametrize("look", [1, 2])
def test_what_ends_during_a_look_at_the_holdings_is_not_taken_up(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    """A claim was carried out before the first look, or before the second; its answer arrives, and the job is done,
    while the answer to the look is under way."""
    ran: list[int] = []

    @app.job
    async def hello(n: int) -> None:
        ran.append(n)

    async def body(worker: Worker) -> None:
        real, looks = worker._strangers, 0

        async def claim(n: int) -> list[Claim]:
            await hello.aenqueue(n=n)
            return await worker._claims.run(work.claim("treadle", worker.worker_id, ["hello"], 1, None))

        async def late() -> list[Claim]:
            nonlocal looks
            looks += 1
            claims = await claim(looks)
            found = await real()
            if looks == look:
                worker._intakes[0].take(claims)
                await until(lambda: one(connection, "select count(*) from jobs where status = 'completed'") == 1)
            return found

        monkeypatch.setattr(worker, "_strangers", late)
        await worker._adopt()
        assert looks == 2
        monkeypatch.setattr(worker, "_strangers", real)
        await worker._adopt()
        await until(lambda: one(connection, "select count(*) from jobs where status = 'completed'") == 2)

    run(app, body, queues=["another"])
    assert sorted(ran) == [1, 2]


def test_a_listener_that_goes_deaf_is_noticed_later_too(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "PROBE_SECONDS", 0.1)
    resets: list[bool] = []

    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        await until(lambda: worker.hears)
        monkeypatch.setattr(worker._listener, "reset", lambda: resets.append(True))
        worker._listener._heard = lambda _: None
        await until(lambda: resets)
        assert not worker.hears

    run(app, body)


def test_only_its_own_probe_tells_a_worker_that_it_hears(app: Treadle) -> None:
    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        await until(lambda: worker.hears)
        worker._listener.hearing = False
        worker._heard("probe somebody-else")
        assert not worker.hears
        worker._heard(f"probe {worker.worker_id}")
        assert worker.hears

    run(app, body)


def test_strangers_messages_break_no_listener(
    app: Treadle, connection: Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    @app.job
    async def hello() -> str:
        return "hello"

    async def body(worker: Worker) -> None:
        await until(lambda: worker.hears)
        assert await (await hello.aenqueue()).aresult(10) == "hello"
        waiting = app.ends.wait(app.queue.enqueue("never"))
        for kind in ("work", "ends"):
            for message in ("cancelled nonsense", "nonsense"):
                connection.execute("select pg_notify(channel(%s), %s)", [kind, message])
        # What comes after them is heard.
        worker._listener.hearing = False
        connection.execute("select pg_notify(channel('work'), %s)", [f"probe {worker.worker_id}"])
        await until(lambda: worker.hears)
        app.queue.cancel(next(iter(app.ends._waiting)))
        await until(waiting.done)

    with caplog.at_level(logging.DEBUG, "treadle"):
        run(app, body)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def test_a_draining_worker_ends_only_when_it_was_not_busy_before_it_looked(
    app: Treadle, monkeypatch: pytest.MonkeyPatch, parked: Parked
) -> None:
    """What ended since may have let another job go."""
    park, began, go = parked

    async def body(worker: Worker) -> None:
        await until(lambda: began)
        (intake,) = worker._intakes
        worker.nothing_left(intake, True)
        assert not worker._drained.is_set(), "a job runs"
        with monkeypatch.context() as patched:
            patched.setattr(worker, "busy", lambda: False)
            worker.nothing_left(intake, False)
        assert not worker._drained.is_set(), "it has to look again"
        await until(lambda: not intake.bell.is_set())
        go.set()
        await asyncio.wait_for(worker.drained(), 10)

    park.enqueue(n=1)
    run(app, body, drain=True, poll="60s", grace=0)


def test_a_draining_worker_does_not_wait_for_the_poll(app: Treadle, parked: Parked) -> None:
    park, began, go = parked

    async def body(worker: Worker) -> None:
        await until(lambda: began)
        await asyncio.sleep(0.3)  # it rests
        go.set()
        await asyncio.wait_for(worker.drained(), 10)

    park.enqueue(n=1)
    run(app, body, drain=True, listen=False, poll="60s", grace=0)


def test_a_worker_writes_what_has_ended_before_it_goes(
    app: Treadle, connection: Connection[Any], parked: Parked
) -> None:
    park, _, go = parked

    async def body() -> None:
        worker = app.worker()
        await worker.start()
        await park.aenqueue(n=1)
        async with worker._outcomes._turn:  # nothing can be written now
            go.set()
            await until(worker._completer.unwritten)
            stopping = asyncio.create_task(worker.stop())
            await asyncio.wait({stopping}, timeout=0.5)
        await stopping
        await app.aclose()

    asyncio.run(body())
    assert one(connection, "select status from jobs") == "completed"


def test_floors_move_and_old_jobs_go_by_themselves(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "PRUNE_SECONDS", 0.1)

    @app.job
    async def hello() -> None: ...

    connection.execute(
        "insert into jobs (job_type, status, finished_at) values ('old', 'completed', now() - interval '1 year')"
    )

    async def body(worker: Worker) -> None:
        handle = await hello.aenqueue()
        await handle.aresult(10)
        await until(lambda: one(connection, "select bool_or(floor > '-infinity') from lanes where job_type = 'hello'"))
        await until(lambda: one(connection, "select count(*) from jobs where job_type = 'old'") == 0)

    run(app, body)


# The lease


def test_a_lease_counts_from_before_it_was_asked_for(url: str, connect: Connect) -> None:
    connection, holder = connect(), connect(autocommit=False)
    connection.execute("select register_worker('me', '1 minute', '{a}')")
    holder.execute("select from workers for update")

    async def body() -> None:
        keeper, board = Keeper(url, "treadle", timedelta(minutes=1), 3), Board.make(1)
        keeper.wards["me"] = board
        renewing = asyncio.create_task(keeper.renew())
        await asyncio.to_thread(until_blocked, connection)
        asked = now()
        holder.rollback()
        await until(lambda: board.renewed_at)
        assert board.renewed_at < asked
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await keeper.close()
        board.close()

    asyncio.run(body())


def test_a_renewal_that_fails_is_tried_again(
    url: str, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[DatabaseAway] = []

    async def body() -> None:
        keeper, board = Keeper(url, "treadle", timedelta(seconds=5), 3), Board.make(1)
        keeper.wards["me"] = board
        real = keeper._line.run

        async def watched(query: Query[Any]) -> Any:
            try:
                return await real(query)
            except DatabaseAway as error:
                failed.append(error)
                raise

        monkeypatch.setattr(keeper._line, "run", watched)
        connection.execute("alter function renew_workers rename to renew_workers_away")
        renewing = asyncio.create_task(keeper.renew())
        try:
            await until(lambda: failed)
        finally:
            connection.execute("alter function renew_workers_away rename to renew_workers")
        await until(lambda: board.renewed_at)
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await keeper.close()
        board.close()

    asyncio.run(body())


def test_a_keeper_that_dies_is_replaced(app: Treadle) -> None:
    fenced: list[events.Event] = []
    app.on(events.WorkerFenced)(fenced.append)

    @app.job
    async def hello() -> str:
        return "hello"

    async def body(worker: Worker) -> None:
        first = worker.keeper_pid
        psutil.Process(first).kill()
        killed = now()
        await until(lambda: worker._board.renewed_at > killed)
        assert worker.keeper_pid != first
        assert not fenced
        assert await (await hello.aenqueue()).aresult(10) == "hello"

    run(app, body, lease="5s")


def test_a_keeper_whose_connection_falls_silent_renews_the_lease_in_time(url: str) -> None:
    if "host=/" not in url:
        pytest.skip("needs the embedded server's socket")
    proxy = Proxy(url)
    app = Treadle(proxy.url)
    fenced: list[events.Event] = []
    app.on(events.WorkerFenced)(fenced.append)

    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        first = worker._board.renewed_at
        await until(lambda: worker._board.renewed_at > first)
        proxy.go_silent()
        silent = now()
        await until(lambda: worker._board.renewed_at > silent)
        assert not fenced

    try:
        run(app, body, lease="5s", listen=False, poll="60s")
    finally:
        proxy.close()


def test_an_outcome_survives_a_failure_of_whoever_writes_it(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.job
    async def hello() -> int:
        return 3

    async def body(worker: Worker) -> None:
        real = worker._completer._write

        async def broken(batch: Any) -> None:
            monkeypatch.setattr(worker._completer, "_write", real)
            raise RuntimeError("cannot be")

        monkeypatch.setattr(worker._completer, "_write", broken)
        assert await (await hello.aenqueue()).aresult(10) == 3

    run(app, body)
