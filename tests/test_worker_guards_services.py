"""Guards of what a worker does beside its jobs: each of these goes red when its guard is removed."""

import asyncio
import logging
from typing import Any

import pytest
from psycopg import Connection

from tests.workers import Parked, auntil, auntil_resting, one, run
from treadle import Treadle
from treadle.db import work
from treadle.db.line import open_connection
from treadle.db.listener import Listener
from treadle.words.claim import Claim
from treadle.worker import Worker
from treadle.worker import worker as worker_module
from treadle.worker.loop import within


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
        assert await handle.aresult(30) == 3

    run(app, body, queues=["another"])


def test_what_a_worker_knows_is_not_taken_up_again(app: Treadle, parked: Parked) -> None:
    """Running, ready, or ended and not written yet."""
    park, began, go = parked

    async def body(worker: Worker) -> None:
        handles = await park.aenqueue_many({"n": n} for n in range(3))
        await auntil(lambda: len(worker._intakes[0].ready) == 2)
        await worker._adopt()
        await worker._adopt()
        assert (began, len(worker._intakes[0].ready)) == ([0], 2)
        async with worker._outcomes._turn:  # nothing can be written now
            go.set()
            await auntil(lambda: len(worker._completer.unwritten()) == 3)
            await worker._adopt()
            assert len(worker._intakes[0].ready) == 0
        assert [await handle.aresult(30) for handle in handles] == [0, 1, 2]

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
                await auntil(lambda: one(connection, "select count(*) from jobs where status = 'completed'") == 1)
            return found

        monkeypatch.setattr(worker, "_strangers", late)
        await worker._adopt()
        assert looks == 2
        monkeypatch.setattr(worker, "_strangers", real)
        await worker._adopt()
        await auntil(lambda: one(connection, "select count(*) from jobs where status = 'completed'") == 2)

    run(app, body, queues=["another"])
    assert sorted(ran) == [1, 2]


def test_a_listener_that_goes_deaf_is_noticed_later_too(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "PROBE_SECONDS", 0.1)
    resets: list[bool] = []

    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        await auntil(lambda: worker.hears)
        monkeypatch.setattr(worker._listener, "reset", lambda: resets.append(True))
        worker._listener._heard = lambda _: None
        await auntil(lambda: resets)
        assert not worker.hears

    run(app, body)


def test_only_its_own_probe_tells_a_worker_that_it_hears(app: Treadle) -> None:
    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        await auntil(lambda: worker.hears)
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
        await auntil(lambda: worker.hears)
        assert await (await hello.aenqueue()).aresult(30) == "hello"
        waiting = app.watch.end(app.queue.enqueue("never"))
        for kind in ("work", "ends"):
            for message in ("cancelled nonsense", "nonsense"):
                connection.execute("select pg_notify(channel(%s), %s)", [kind, message])
        # What comes after them is heard.
        worker._listener.hearing = False
        connection.execute("select pg_notify(channel('work'), %s)", [f"probe {worker.worker_id}"])
        await auntil(lambda: worker.hears)
        app.queue.cancel(next(iter(app.watch.ends.futures)))
        await auntil(waiting.done)

    with caplog.at_level(logging.DEBUG, "treadle"):
        run(app, body)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def test_a_draining_worker_ends_only_when_it_was_not_busy_before_it_looked(
    app: Treadle, monkeypatch: pytest.MonkeyPatch, parked: Parked
) -> None:
    """What ended since may have let another job go."""
    park, began, go = parked

    async def body(worker: Worker) -> None:
        await auntil(lambda: began)
        (intake,) = worker._intakes
        worker.nothing_left(intake, True)
        assert not worker._drained.is_set(), "a job runs"
        with monkeypatch.context() as patched:
            patched.setattr(worker, "busy", lambda: False)
            worker.nothing_left(intake, False)
        assert not worker._drained.is_set(), "it has to look again"
        await auntil(lambda: not intake.bell.is_set())
        go.set()
        await asyncio.wait_for(worker.drained(), 30)

    park.enqueue(n=1)
    run(app, body, drain=True, poll="60s", grace=0)


def test_a_draining_worker_does_not_wait_for_the_poll(app: Treadle, parked: Parked) -> None:
    park, began, go = parked

    async def body(worker: Worker) -> None:
        await auntil(lambda: began)
        await auntil_resting(worker)
        go.set()
        await asyncio.wait_for(worker.drained(), 30)

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
            await auntil(worker._completer.unwritten)
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
        await handle.aresult(30)
        await auntil(lambda: one(connection, "select bool_or(floor > '-infinity') from lanes where job_type = 'hello'"))
        await auntil(lambda: one(connection, "select count(*) from jobs where job_type = 'old'") == 0)

    run(app, body)


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
        assert await (await hello.aenqueue()).aresult(30) == 3

    run(app, body)


def test_waiting_for_something_with_a_limit_does_not_lose_a_cancellation() -> None:
    async def body() -> None:
        came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = asyncio.create_task(within(came, 30))
        await asyncio.sleep(0)
        came.set_result(None)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(body())


def test_a_listener_that_is_cancelled_as_it_connects_ends(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        came: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        monkeypatch.setattr("treadle.db.listener.open_connection", lambda *_: came)
        listening = asyncio.create_task(Listener(url, "treadle", "work", lambda _: None, "test").run())
        await asyncio.sleep(0.01)
        connection = await open_connection(url, "test")
        came.set_result(connection)
        listening.cancel()
        done, _ = await asyncio.wait([listening], timeout=3)
        assert done
        await connection.close()

    asyncio.run(body())
