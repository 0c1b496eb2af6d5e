"""What a worker is protected by, one guard after the other: each of these goes red when its guard is removed."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import psutil
import pytest
from psycopg import Connection

from tests.conftest import Connect
from tests.test_worker import run, until
from tests.test_worker_outages import Proxy
from tests.waiting import until_blocked
from treadle import Job, JobFailed, JobQueue, Treadle, events
from treadle.app import ends
from treadle.db import work
from treadle.db.line import DatabaseAway, Line
from treadle.db.query import Query
from treadle.words.outcome import Interrupt
from treadle.worker import Worker
from treadle.worker.board import Board, now
from treadle.worker.keeper import Keeper

NOW = "(extract(epoch from clock_timestamp()) * 1000000)::bigint"


@pytest.fixture
def app(url: str) -> Treadle:
    return Treadle(url)


def one(connection: Connection[Any], query: str, *params: object) -> Any:
    row = connection.execute(query, params).fetchone()
    assert row
    return row[0]


# Fences

WRITES = {
    "settle_jobs": "select count(*) from settle_jobs(%(worker)s, array[%(id)s], array[%(lease)s::bigint], '{retry}')",
    "start_jobs": "select count(*) from start_jobs(%(worker)s, array[%(id)s], array[%(lease)s::bigint], '{1}')",
    "complete_jobs": """select count(*)
        from complete_jobs(array[%(id)s], array[%(lease)s::bigint], array[%(worker)s::varchar])""",
}
LOSSES = {
    "taken again by the same worker": "select release_job(id) from jobs; select claim_jobs('worker-1', '{a}')",
    "held by another under the same number": "update jobs set worker_id = 'worker-2'",
    "made pending by hand": "update jobs set status = 'pending'",
    "completed": "update jobs set status = 'completed'",
    "failed": "update jobs set status = 'failed'",
    "cancelled": "select cancel_job(id) from jobs",
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("write", WRITES)
def test_what_is_not_held_any_more_is_not_written(
    queue: JobQueue, connection: Connection[Any], write: str, loss: str
) -> None:
    queue.enqueue("a")
    (job,) = queue.claim(["a"])
    for statement in LOSSES[loss].split(";"):
        connection.execute(statement)
    before = queue.get(job.id)
    params = {"worker": "worker-1", "id": job.id, "lease": job.lease}
    assert connection.execute(WRITES[write], params).fetchone() == (0,)
    assert queue.get(job.id) == before


@pytest.mark.parametrize("write", WRITES)
def test_what_is_held_is_written(queue: JobQueue, connection: Connection[Any], write: str) -> None:
    queue.enqueue("a")
    (job,) = queue.claim(["a"])
    params = {"worker": "worker-1", "id": job.id, "lease": job.lease}
    assert connection.execute(WRITES[write], params).fetchone() == (1,)


def test_a_cancelled_attempt_and_a_snoozed_one_are_no_errors(queue: JobQueue, connection: Connection[Any]) -> None:
    for outcome in ("cancelled", "released"):
        queue.enqueue("a")
        (job,) = queue.claim(["a"])
        connection.execute(
            "select settle_jobs('worker-1', array[%s], '{1}', array[%s::varchar], '{told}')", [job.id, outcome]
        )
        assert queue.errors(job.id) == []
        connection.execute("delete from jobs")


# Lost workers


def lose_worker(connection: Connection[Any], worker_id: str = "gone") -> None:
    """It was silent for longer than its lease."""
    connection.execute("select register_worker(%s, '1 second', '{a}')", [worker_id])
    connection.execute("update workers set seen_at = clock_timestamp() - interval '1 minute'")


def recovered(connection: Connection[Any], later: str = "0") -> int:
    found: int = one(
        connection, "select count(*) from recover_lost_workers(3, clock_timestamp() + %s::interval)", later
    )
    return found


def test_who_sends_heartbeats_by_hand_has_no_lease_to_lose(queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("a")
    connection.execute("select claim_jobs('by hand', '{a}')")
    connection.execute("select heartbeat('by hand')")
    assert recovered(connection, "1 year") == 0
    assert one(connection, "select lost_at is null from workers")


def test_a_claim_of_a_lost_worker_that_arrives_late_is_given_back(queue: JobQueue, connection: Connection[Any]) -> None:
    lose_worker(connection)
    assert recovered(connection) == 0
    assert one(connection, "select lost_at is not null from workers"), "it keeps its row"
    for later in ("0", "2 days"):
        queue.enqueue("a")
        connection.execute("select claim_jobs('gone', '{a}')")
        assert recovered(connection, later) == 1, "late claims have to be found, also after a day"
        connection.execute("delete from jobs")
    assert recovered(connection, "23 hours") == 0
    assert one(connection, "select count(*) from workers") == 1
    recovered(connection, "2 days")
    assert one(connection, "select count(*) from workers") == 0, "a row of a worker that is gone is not kept for ever"


def test_a_lost_worker_keeps_its_row_while_a_job_of_it_is_locked(queue: JobQueue, connect: Connect) -> None:
    connection, late = connect(), connect(autocommit=False)
    lose_worker(connection)
    queue.enqueue("a")
    connection.execute("select claim_jobs('gone', '{a}')")
    late.execute("select from jobs for update")
    connection.execute("select recover_worker('gone', 'gone', '{}', p_keep => false)")
    late.rollback()
    assert recovered(connection) == 1


def test_only_what_ran_on_a_lost_worker_is_suspected(queue: JobQueue, connection: Connection[Any]) -> None:
    lose_worker(connection)
    waiting, running = queue.enqueue("a"), queue.enqueue("a")
    connection.execute("select claim_jobs('gone', '{a}')")
    connection.execute("update jobs set status = 'running' where id = %s", [running])
    assert recovered(connection) == 2
    assert [(queue.get(each).crashes, queue.get(each).attempts) for each in (waiting, running)] == [(0, 0), (1, 0)]


def test_lost_workers_are_recovered_by_one_at_a_time(queue: JobQueue, connect: Connect) -> None:
    connection, first = connect(), connect(autocommit=False)
    assert recovered(first) == 0
    lose_worker(connection)
    queue.enqueue("a")
    connection.execute("select claim_jobs('gone', '{a}')")
    assert recovered(connection) == 0, "somebody is at it"
    first.commit()
    assert recovered(connection) == 1


def test_a_worker_that_was_given_up_and_lives_is_not_lost_any_more(
    queue: JobQueue, connection: Connection[Any]
) -> None:
    lose_worker(connection)
    recovered(connection)
    connection.execute("select renew_workers('{gone}', '1 minute')")
    queue.enqueue("a")
    connection.execute("select claim_jobs('gone', '{a}')")
    assert recovered(connection) == 0


# Bells


class Ear:
    """Hears what is said on a channel."""

    def __init__(self, connect: Connect, kind: str) -> None:
        self._connection = connect()
        self._speaker = connect()
        self._channel = one(self._speaker, "select channel(%s)", kind)
        self._connection.execute(f'listen "{self._channel}"'.encode())

    def heard(self) -> list[str]:
        """Since the last time. Notifications come in the order of commits, so nothing has to be waited for."""
        self._speaker.execute("select pg_notify(%s, 'that is all')", [self._channel])
        said: list[str] = []
        for notification in self._connection.notifies(timeout=10):
            if notification.payload == "that is all":
                return said
            said.append(notification.payload)
        raise AssertionError("nothing was heard for 10 seconds")


@pytest.mark.parametrize(
    ("last", "due", "rings"),
    [
        ("0", "0", True),
        (NOW, "0", False),
        (f"{NOW} - 1000000", "0", True),
        (f"{NOW} + 1000000", "0", True),
        ("0", "9 seconds", True),
        ("0", "11 seconds", False),
    ],
    ids=[
        "a worker rests",
        "rung just now",
        "rung a second ago, perhaps by one that rolled back",
        "the clock was set back",
        "due soon",
        "due later",
    ],
)
def test_when_workers_are_woken(connect: Connect, last: str, due: str, rings: bool) -> None:
    ear, connection = Ear(connect, "work"), connect()
    connection.execute("select ring('infinity')")  # so that it is loaded
    # In one statement: 20 milliseconds are soon over.
    connection.execute(f"select setval('bell', {last}), ring(clock_timestamp() + interval '{due}')".encode())
    assert ear.heard() == [""] * rings
    connection.execute("set treadle.notify = off")
    connection.execute(f"select setval('bell', {last}), ring(clock_timestamp() + interval '{due}')".encode())
    assert ear.heard() == []


def test_who_goes_to_rest_is_woken_however_soon(connect: Connect) -> None:
    ear, connection = Ear(connect, "work"), connect()
    connection.execute(f"select setval('bell', {NOW}), rest('{{a}}')".encode())
    assert one(connection, "select last_value from bell") == 0
    connection.execute(f"select setval('bell', {NOW}), rest('{{a}}'), ring(clock_timestamp())".encode())
    assert ear.heard() == [""]


def test_who_has_to_be_sure_looks_below_the_floors(queue: JobQueue, connection: Connection[Any]) -> None:
    queue.enqueue("a")
    connection.execute("update lanes set floor = clock_timestamp() + interval '1 minute'")
    connection.execute(f"select setval('tick_clock', {NOW})".encode())
    assert one(connection, "select rest('{a}')") is None
    assert one(connection, "select rest('{a}', null, true)") <= 0


def test_ends_are_told_only_while_somebody_waits(queue: JobQueue, connect: Connect) -> None:
    ear, connection = Ear(connect, "ends"), connect()
    ids = queue.enqueue_many("a", [{}] * 300)
    jobs = {job.id: job for job in queue.claim(["a"], 300)}
    assert queue.complete_many([jobs[ids[0]]]) == []
    assert ear.heard() == []
    connection.execute("select await_ends()")
    assert queue.complete_many([jobs[ids[1]]]) == []
    assert ear.heard() == [str(ids[1])]
    connection.execute("set treadle.notify = off")
    connection.execute("select announce(%s)", [ids[:1]])
    assert ear.heard() == []
    # A notification has room for 200.
    assert queue.complete_many([jobs[each] for each in ids[2:]]) == []
    assert sorted(",".join(ear.heard()).split(",")) == sorted(map(str, ids[2:]))


def test_the_holder_of_a_cancelled_job_is_told(queue: JobQueue, connect: Connect) -> None:
    ear = Ear(connect, "work")
    waiting, held = queue.enqueue("a"), queue.enqueue("b")
    queue.claim(["b"])
    ear.heard()
    queue.cancel(waiting)
    assert ear.heard() == []
    queue.cancel(held)
    assert ear.heard() == [f"cancelled {held}"]


# Waiting for ends


@pytest.mark.parametrize("look", [1, 2])
def test_an_end_that_commits_as_somebody_comes_to_wait_is_found_soon(
    app: Treadle, queue: JobQueue, connect: Connect, monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    """Its transaction found nobody waiting, and committed after the first look, or after the second."""
    monkeypatch.setattr(ends, "LOOK_SECONDS", 60.0)
    late = connect(autocommit=False)
    handle = app.handle(queue.enqueue("a"))
    (job,) = queue.claim(["a"])
    late.execute("select complete_job(%s, '7', %s, %s)", [job.id, job.lease, "worker-1"])
    real, looks = app.ends._wake, 0

    def wake(ids: list[Any]) -> None:
        nonlocal looks
        looks += 1
        if looks == look:
            late.commit()
        real(ids)

    monkeypatch.setattr(app.ends, "_wake", wake)
    assert handle.result(10) == 7
    app.close()


def test_who_waits_for_long_goes_on_being_told(
    app: Treadle, queue: JobQueue, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "_SPAN", timedelta(seconds=0.3))
    waiting = app.ends.wait(queue.enqueue("a"))
    seen: set[int] = set()
    end = time.monotonic() + 10
    while len(seen) < 4 and time.monotonic() < end:
        seen.add(one(connection, "select last_value from awaited"))
    assert len(seen) == 4
    queue.complete(*queue.claim(["a"]))
    waiting.result(10)
    app.close()


# A worker inside a program


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


def test_what_was_not_begun_is_given_back_at_the_fence(
    app: Treadle, connection: Connection[Any], parked: Parked
) -> None:
    fenced: list[events.Event] = []
    app.on(events.WorkerFenced)(fenced.append)
    park, began, _ = parked

    async def body(worker: Worker) -> None:
        await park.aenqueue_many({"n": n} for n in range(3))
        await until(lambda: one(connection, "select count(*) from jobs where worker_id is not null") == 3)
        keeper = psutil.Process(worker.keeper_pid)
        keeper.suspend()
        try:
            await until(lambda: fenced)
            await until(
                lambda: one(connection, "select count(*) from jobs where status = 'pending' and attempts = 0") == 3
            )
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
        await until(lambda: one(connection, "select count(*) from jobs where worker_id is not null") == 3)
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
