"""How many jobs a live worker runs at once, changed while it runs."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg import Connection

from tests.support.commands import output_of
from tests.support.handlers import nap
from tests.support.workers import Ledger, WaitingJob, auntil, auntil_waiting, count, one, run, until, worker_process
from treadle import Retries, Treadle, events
from treadle.db.query import Query
from treadle.db.reconnecting import ReconnectingConnection
from treadle.worker.concurrency import CHECK_SECONDS
from treadle.worker.worker import Worker


def in_child() -> None: ...


async def settled(began: list[int], number: int) -> None:
    """Wait until so many have begun, and a little longer: no more begin."""
    await auntil(lambda: len(began) >= number)
    await asyncio.sleep(0.3)
    assert len(began) == number


def test_a_raised_number_lets_more_jobs_begin_at_once(
    app: Treadle, waiting_job: WaitingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("concurrency", "worker"):
        monkeypatch.setattr(f"treadle.worker.{module}.CHECK_SECONDS", 3600.0)
    job, began, go = waiting_job

    async def body(worker: Worker) -> None:
        await job.aenqueue_many({"n": n} for n in range(20))
        await settled(began, 2)
        await auntil(lambda: worker.receives_notifications)
        assert await app.workers.aset_concurrency(worker.worker_id, 12)
        await auntil(lambda: len(began) == 12)
        await settled(began, 12)
        go.set()
        await auntil(lambda: len(began) == 20)

    run(app, body, concurrency=2, prefetch=0)


def test_more_sync_functions_run_at_once_than_the_worker_was_started_with(app: Treadle) -> None:
    here, go = threading.Semaphore(0), threading.Event()

    @app.job
    def on_thread() -> None:
        here.release()
        go.wait(30)

    async def body(worker: Worker) -> None:
        try:
            handles = await on_thread.aenqueue_many({} for _ in range(6))
            await auntil(lambda: len(worker.running) == 1)
            await app.workers.aset_concurrency(worker.worker_id, 6)
            for _ in range(6):
                assert await asyncio.to_thread(here.acquire, timeout=10), "a job waits for a thread"
        finally:
            go.set()
        for each in handles:
            await each.aresult(30)

    run(app, body, concurrency=1, prefetch=0)


def test_lowering_stops_nothing_that_runs(app: Treadle, connection: Connection[Any]) -> None:
    began: list[int] = []
    stop: dict[int, asyncio.Event] = {n: asyncio.Event() for n in range(20)}

    @app.job(retry=Retries(0))
    async def wait_for_own_event(n: int) -> None:
        began.append(n)
        await stop[n].wait()

    async def body(worker: Worker) -> None:
        await wait_for_own_event.aenqueue_many({"n": n} for n in range(20))
        await auntil(lambda: len(began) == 6)
        await app.workers.aset_concurrency(worker.worker_id, 3)
        await auntil(lambda: worker.concurrency.current == 3)
        for n in range(3):
            assert len(worker.running) == 6 - n
            stop[began[n]].set()
            await auntil(lambda n=n: len(worker.running) == 5 - n)  # type: ignore[misc]
        await settled(began, 6)
        assert count(connection, "status in ('claimed', 'running')") == 3, "it has claimed more than it may run"
        stop[began[3]].set()
        await settled(began, 7)
        assert count(connection, "lease > 1") == 0, "a job was interrupted and began again"
        for each in stop.values():
            each.set()
        await auntil(lambda: count(connection, "status = 'completed'") == 20)

    run(app, body, concurrency=6, prefetch=0)


def test_jobs_that_were_claimed_ahead_are_given_back_when_the_number_falls_below_what_runs(
    app: Treadle, waiting_job: WaitingJob, connection: Connection[Any]
) -> None:
    job, _, go = waiting_job

    async def body(worker: Worker) -> None:
        await job.aenqueue_many({"n": n} for n in range(20))
        await auntil(lambda: count(connection, "status in ('claimed', 'running')") == 4 + 10)
        await app.workers.aset_concurrency(worker.worker_id, 2)
        await auntil(lambda: count(connection, "status = 'pending'") == 16)
        leases = one(connection, "select sum(lease) from jobs")
        await asyncio.sleep(0.3)
        assert one(connection, "select sum(lease) from jobs") == leases, "it claims ahead although it may start nothing"
        go.set()
        await auntil(lambda: count(connection, "status = 'completed'") == 20)

    run(app, body, concurrency=4, prefetch=10)


def test_with_0_a_worker_claims_nothing_until_it_is_reset(
    app: Treadle, waiting_job: WaitingJob, connection: Connection[Any]
) -> None:
    job, _, go = waiting_job
    go.set()

    child_job = app.job(process=True)(in_child)

    async def body(worker: Worker) -> None:
        await auntil_waiting(worker)
        await app.workers.aset_concurrency(worker.worker_id, 0, actor="ann", reason="too slow")
        await auntil(lambda: worker.concurrency.current == 0)
        handle = await job.aenqueue(n=1)
        await child_job.aenqueue()
        await asyncio.sleep(0.5)
        assert count(connection, "status = 'pending' and lease = 0") == 2, "it claims jobs"
        (row,) = await app.workers.alist()
        assert (row.concurrency, row.initial_concurrency) == (0, 4)
        connection.execute("delete from jobs where job_type = 'in_child'")
        assert await app.workers.areset_concurrency(worker.worker_id)
        assert await handle.aresult(2) == 1
        (row,) = await app.workers.alist()
        assert (row.concurrency, row.initial_concurrency) == (4, 4)

    run(app, body, concurrency=4, prefetch=5)
    audit = connection.execute("select actor, action, reason, details - 'worker' from audit order by id").fetchall()
    assert audit[0] == ("ann", "concurrency", "too slow", {"before": 4, "concurrency": 0})
    assert audit[1][1:] == ("reset concurrency", None, {"before": 0, "concurrency": 4})


def test_jobs_of_a_claim_that_was_under_way_are_given_back(
    app: Treadle, waiting_job: WaitingJob, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number falls to 0 between a claim and its reply."""
    job, began, _ = waiting_job
    real = ReconnectingConnection.run
    worker_of: list[Worker] = []

    async def lowered_before_the_reply(connection: ReconnectingConnection, query: Query[Any]) -> Any:
        reply = await real(connection, query)
        if "claim_work" in query.text and reply:
            worker_of[0].concurrency.heard(0)
        return reply

    async def body(worker: Worker) -> None:
        worker_of.append(worker)
        await auntil_waiting(worker)
        monkeypatch.setattr(ReconnectingConnection, "run", lowered_before_the_reply)
        connection.execute("insert into worker_concurrency values (%s, 0, 'ann', now())", [worker.worker_id])
        await job.aenqueue(n=1)
        await auntil(lambda: one(connection, "select lease from jobs") == 1)
        await auntil(lambda: one(connection, "select status from jobs") == "pending")
        assert began == []

    run(app, body, prefetch=5)


def test_a_notification_makes_it_ask_at_once(app: Treadle) -> None:
    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        await auntil(lambda: worker.receives_notifications)
        await auntil_waiting(worker)
        await app.workers.aset_concurrency(worker.worker_id, 9)
        await auntil(lambda: worker.concurrency.current == 9, 10)

    run(app, body, poll="5m")


@pytest.mark.parametrize("busy", [False, True])
def test_a_change_is_taken_up_without_notifications(app: Treadle, waiting_job: WaitingJob, busy: bool) -> None:
    job, began, go = waiting_job

    async def body(worker: Worker) -> None:
        if busy:
            await job.aenqueue_many({"n": n} for n in range(6))
            await auntil(lambda: len(began) == 3)
        else:
            await auntil_waiting(worker)
        asked = time.monotonic()
        await app.workers.aset_concurrency(worker.worker_id, 5)
        await auntil(lambda: worker.concurrency.current == 5)
        assert time.monotonic() - asked < CHECK_SECONDS * 1.1 + 30
        if busy:
            await auntil(lambda: len(began) == 5)
        go.set()

    run(app, body, concurrency=3, listen=False)


def test_an_idle_worker_sends_no_statement_of_its_own_for_it(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ReconnectingConnection.run
    statements: list[str] = []

    async def noted(connection: ReconnectingConnection, query: Query[Any]) -> Any:
        statements.append(query.text)
        return await real(connection, query)

    @app.job
    async def hello() -> None: ...

    app.job(process=True)(in_child)

    async def body(worker: Worker) -> None:
        await auntil_waiting(worker)
        statements.clear()
        await asyncio.sleep(2.5 * interval)
        assert [text for text in statements if "worker_concurrency" in text and "next_due" not in text] == []
        assert any("worker_concurrency" in text for text in statements)

    # Of the service that checks, and of the poll that it waits for.
    interval = 0.5
    monkeypatch.setattr("treadle.worker.concurrency.CHECK_SECONDS", interval)
    monkeypatch.setattr("treadle.worker.worker.CHECK_SECONDS", interval)
    monkeypatch.setattr(ReconnectingConnection, "run", noted)
    run(app, body, poll="0.25s")


def test_a_notification_that_anybody_sent_changes_nothing(app: Treadle, connection: Connection[Any]) -> None:
    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        await auntil(lambda: worker.receives_notifications)
        worker.notifications.received(f"concurrency {worker.worker_id}")
        worker.notifications.received("concurrency")
        worker.notifications.received(f"concurrency {worker.worker_id} 0")
        await asyncio.sleep(0.2)
        assert worker.concurrency.current == 7

    run(app, body, concurrency=7)


def test_a_change_is_an_event_and_a_line_of_the_log(app: Treadle, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[events.ConcurrencyChanged] = []
    app.on(events.ConcurrencyChanged)(seen.append)

    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> str:
        await app.workers.aset_concurrency(worker.worker_id, 70)
        await auntil(lambda: seen)
        return worker.worker_id

    worker_id = run(app, body)
    assert seen == [events.ConcurrencyChanged(worker_id, 70, 50)]
    assert f"concurrency changed by an operator worker_id={worker_id} concurrency=70 before=50" in caplog.text


def test_a_transaction_that_stays_open_does_not_keep_the_worker_from_renewing_its_lease(
    app: Treadle, url: str, connection: Connection[Any]
) -> None:
    connection.execute("select register_worker('w', '1 minute', '{a}', null, 5)")
    with psycopg.connect(url, options="-c search_path=treadle") as operator:
        assert operator.execute("select set_concurrency('w', 9)").fetchone() == ("done",)
        connection.execute("set lock_timeout = '1s'")
        connection.execute("select renew_workers('{w}', '1 minute')")
        connection.execute("select recover_worker('w', 'gone', p_keep => false)")


# Worker processes


@pytest.mark.own_database
@pytest.mark.usefixtures("handlers_use_test_database")
@pytest.mark.long
def test_each_process_of_a_command_has_its_own_number(
    url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger
) -> None:
    def running() -> dict[str, int]:
        return dict(
            connection.execute("select worker_id, count(*) from jobs where status = 'running' group by 1").fetchall()
        )

    def change(*arguments: object) -> None:
        output_of("concurrency", *arguments, TREADLE_DATABASE_URL=url)

    nap.enqueue_many({"seconds": 600} for _ in range(20))
    with worker_process(url, tmp_path, "--processes", "2", "--concurrency", "2") as program:
        program.started(2)
        until(lambda: sorted(running().values()) == [2, 2], running)
        first, second = running()
        change(first, 5)
        change(second, 0)
        until(lambda: running() == {first: 5, second: 2}, running)
        log = program.log.read_text()
        assert f"concurrency changed by an operator worker_id={second} concurrency=0 before=2" in log
        # The supervisor knows all jobs that ran, also those beyond what the process was started with.
        pid = one(connection, "select pid from workers where worker_id = %s", first)
        psutil.Process(pid).kill()
        program.started(3)
        until(lambda: count(connection, "crashes = 1") == 5, running)
        (third,) = connection.execute(
            "select worker_id, concurrency from workers where lost_at is null and worker_id <> %s", [second]
        ).fetchall()
        assert third[1] == 2, "the process that replaces it has its option"
        until(lambda: running().get(second) == 2 and running().get(third[0], 0) >= 2, running)
        assert one(connection, "select count(*) from jobs where worker_id = %s", second) == 2, "it has claimed no more"
