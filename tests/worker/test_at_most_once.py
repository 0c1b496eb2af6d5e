"""delivery="at_most_once": an attempt that has begun is never repeated because its process died."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.conftest import Connect
from tests.support import handlers
from tests.support.handlers import pay_once, pay_once_in_child
from tests.support.workers import QUICK, Ledger, auntil, drain, run, until, worker_process
from treadle import InvalidArgument, Job, JobFailed, JobQueue, Retries, Retry, Snooze, Status, Treadle, events
from treadle.worker import running_jobs
from treadle.worker.worker import Worker

UNKNOWN = "delivery is at_most_once, and how its attempt ended is not known: "


@pytest.mark.own_database
@pytest.mark.usefixtures("handlers_use_test_database")
def test_a_payment_is_not_made_twice_after_a_kill(url: str, tmp_path: Path, ledger: Ledger, queue: JobQueue) -> None:
    """Of the worker process, or of the child process."""
    paid = [queue.enqueue(each.name, retry=Retries(4)) for each in (pay_once, pay_once_in_child)]
    plain = queue.enqueue("nap", {"seconds": 600}, retry=Retries(4))
    with worker_process(url, tmp_path, *QUICK) as worker:
        until(lambda: {entry["id"] for entry in ledger.starts()} == set(map(str, [*paid, plain])))
        (process,) = worker.worker_processes()
        process.kill()
        until(lambda: len(ledger.starts(str(plain))) == 2)
        for each in paid:
            row = queue.get(each)
            assert (row.status, row.attempts, len(ledger.starts(str(each)))) == (Status.FAILED, 1, 1)
            assert (row.last_error or "").startswith(UNKNOWN)
        assert len(queue.errors(paid[0])) == 1

        in_child = queue.enqueue("pay_once_in_child")
        until(lambda: ledger.starts(str(in_child)))
        os.kill(ledger.starts(str(in_child))[0]["pid"], signal.SIGKILL)
        until(lambda: queue.get(in_child).status == Status.FAILED)
        assert (queue.get(in_child).last_error or "").startswith(UNKNOWN)
        assert len(ledger.starts(str(in_child))) == 1
    handlers.app.close()


def begin(connection: psycopg.Connection[Any], queue: JobQueue, status: str, once: bool) -> UUID:
    """A job that worker `w` has claimed, and perhaps begun."""
    job_id = queue.enqueue("pay")
    connection.execute("select claim_jobs('w', '{pay}')")
    if status == "running":
        assert connection.execute("select start_job(%s, 1, 'w', %s)", [job_id, once]).fetchone() == (True,)
    return job_id


def test_whoever_recovers_it_lets_it_fail(connection: psycopg.Connection[Any], queue: JobQueue) -> None:
    for recovery in (
        "select recover_worker('w', 'why')",
        "select recover_worker('w', 'why', '{}')",
        "select recover_worker('w', 'why', array(select id from jobs), array(select id from jobs))",
        "select recover_unregistered('0 s', p_now => clock_timestamp() + interval '1 minute')",
        "select recover_stale_jobs('0 s', clock_timestamp() + interval '1 minute')",
    ):
        connection.execute("delete from jobs; delete from workers")
        paid, plain = begin(connection, queue, "running", True), begin(connection, queue, "running", False)
        claimed = begin(connection, queue, "claimed", True)
        connection.execute(recovery)
        assert [queue.get(each).status for each in (paid, plain, claimed)] == ["failed", "pending", "pending"], recovery
        row = queue.get(paid)
        assert (row.last_error or "").startswith(UNKNOWN), recovery
        assert row.attempts == 1, recovery
        # By hand, it can run again; a crash before the attempt begins does not count then.
        queue.retry(paid)
        connection.execute("select claim_jobs('w', '{pay}')")
        connection.execute("select recover_worker('w', 'why')")
        assert queue.get(paid).status == "pending", recovery


def test_it_begins_only_when_that_is_stored(
    app: Treadle,
    connect: Connect,
    queue: JobQueue,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(running_jobs, "NOT_STARTED_SECONDS", 0.01)
    seen: list[Any] = []

    @app.job(delivery="at_most_once")
    async def pay(job: Job) -> str:
        seen.append(queue.get(job.id).status)
        return "paid"

    other = connect(autocommit=False)

    @app.on(events.JobClaimed)
    def lock(event: events.JobClaimed) -> None:
        if event.lease == 1:
            other.execute("select from jobs for update")

    async def body(worker: Worker) -> None:
        handle = await pay.aenqueue()
        await auntil(lambda: "does not begin yet" in caplog.text)
        assert not seen
        other.rollback()
        assert await handle.aresult(30) == "paid"
        # A job that has begun under this claim, and that the worker does not know.
        again = await pay.using(delay="1h").aenqueue()
        await asyncio.to_thread(
            other.execute,
            "update jobs set status = 'running', worker_id = %s, lease = 7, flags = flags | flag_once() where id = %s",
            [worker.worker_id, again.id],
        )
        other.commit()
        worker.lost_replies.wake.set()
        with pytest.raises(JobFailed, match="its attempt had already begun"):
            await again.aresult(30)

    run(app, body)
    assert seen == [Status.RUNNING]


def test_a_worker_that_stops_lets_it_fail(app: Treadle) -> None:
    started: list[Job] = []

    @app.job(delivery="at_most_once")
    async def pay(job: Job) -> None:
        started.append(job)
        await asyncio.sleep(600)

    async def body(worker: Worker) -> Any:
        handle = await pay.aenqueue()
        await auntil(lambda: started)
        return handle

    handle = run(app, body, grace=0)
    row = app.queue.get(handle.id)
    assert (row.status, row.attempts) == (Status.FAILED, 1)
    assert row.last_error == "delivery is at_most_once, and its attempt was interrupted: its worker stopped"
    app.close()


def test_its_errors_are_not_retried_unless_it_says_so(app: Treadle) -> None:
    ran: list[str] = []

    @app.job(delivery="at_most_once")
    async def fails() -> None:
        ran.append("fails")
        raise ValueError

    @app.job(delivery="at_most_once")
    async def later(job: Job) -> None:
        ran.append("later")
        if len(ran) == 1:
            raise Snooze(0)

    @app.job(delivery="at_most_once", retry=Retries(1))
    async def asks() -> None:
        ran.append("asks")
        raise Retry(after=0)

    for function, times in ((later, 2), (fails, 1), (asks, 2)):
        ran.clear()
        function.enqueue()
        drain(app)
        assert len(ran) == times, function.name
    with pytest.raises(InvalidArgument, match="delivery must be"):
        app.job(delivery="once")  # type: ignore[call-overload]
