"""Outcomes that cannot be written, or whose writing fails."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from tests.conftest import Connect
from tests.support.workers import WaitingJob, auntil, run, running_worker
from treadle import JobFailed, Retries, Treadle, events
from treadle.worker.worker import Worker


def test_an_outcome_that_cannot_be_stored_fails_its_job_alone(
    app: Treadle, connection: Connection[Any], waiting_job: WaitingJob
) -> None:
    returns, began, go = waiting_job

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


@pytest.mark.parametrize("together", [1, 2])
def test_an_error_after_an_outcome_was_stored_changes_nothing(
    app: Treadle, waiting_job: WaitingJob, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    seen: list[events.JobEvent] = []
    app.on(events.JobEvent)(seen.append)
    returns, began, go = waiting_job

    async def body(worker: Worker) -> None:
        real = worker.completer._complete

        async def breaks(batch: Any, again: bool) -> None:
            await real(batch, again)
            if not again:
                raise RuntimeError("after it was carried out")

        monkeypatch.setattr(worker.completer, "_complete", breaks)
        handles = [await returns.aenqueue(n=n) for n in range(together)]
        await auntil(lambda: len(began) == together)
        go.set()
        assert [await each.aresult(30) for each in handles] == list(range(together))

    run(app, body)
    assert {type(each) for each in seen} == {events.JobClaimed, events.JobStarted, events.JobCompleted}


def test_an_outcome_survives_an_error_of_the_completer(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.job
    async def hello() -> int:
        return 3

    async def body(worker: Worker) -> None:
        real = worker.completer.write

        async def broken(batch: Any) -> None:
            monkeypatch.setattr(worker.completer, "write", real)
            raise RuntimeError("cannot be")

        monkeypatch.setattr(worker.completer, "write", broken)
        assert await (await hello.aenqueue()).aresult(30) == 3

    run(app, body)


# Rows and tables that others have locked

Lock = Callable[[Connection[Any], Any], None]


def lock_row(other: Connection[Any], job_id: Any) -> None:
    other.execute("select from jobs where id = %s for update", [job_id])


def lock_table(other: Connection[Any], job_id: Any) -> None:
    other.execute("lock table jobs in share mode")  # as CREATE INDEX does


class Outcomes:
    """A worker under a time limit: of its jobs, the row of the first is locked, and that of the one that fails."""

    def __init__(self, url: str, limit: str, connection: Connection[Any]) -> None:
        self.app = Treadle(make_conninfo(url, options=f"-c {limit}"))
        self.go = asyncio.Event()
        self.runs: list[int] = []
        queue = limit.replace("=", " ")
        self.options = {"queues": [queue]}

        @self.app.job
        async def returns(number: int) -> int:
            self.runs.append(number)
            await self.go.wait()
            return number

        @self.app.job(retry=Retries(0))
        async def fails() -> None:
            self.runs.append(-1)
            await self.go.wait()
            raise ValueError("on purpose")

        unlimited = returns.using(connection=connection, queue=queue)
        self.handles = [unlimited.enqueue(number=number) for number in range(3)]
        self.failing = fails.using(connection=connection, queue=queue).enqueue()

    async def all_run(self) -> None:
        await auntil(lambda: all(each.job().status == "running" for each in (*self.handles, self.failing)))

    async def others_do_not_wait(self) -> None:
        assert [await each.aresult(30) for each in self.handles[1:]] == [1, 2]

    async def all_are_written_once(self) -> None:
        assert [await each.aresult(30) for each in self.handles] == [0, 1, 2]
        with pytest.raises(JobFailed, match="on purpose"):
            await self.failing.aresult(30)
        assert sorted(self.runs) == [-1, 0, 1, 2]


@pytest.mark.parametrize(("lock", "seconds"), [(lock_row, 0.13), (lock_row, 1.3), (lock_table, 0.7)])
def test_an_outcome_waits_for_its_row_and_holds_no_other_up(
    url: str, connect: Connect, lock: Lock, seconds: float
) -> None:
    """Of three workers under different limits, at the same time."""
    limits = ("lock_timeout=100ms", "statement_timeout=80ms", "lock_timeout=0")
    connection = connect()
    all_outcomes = [Outcomes(url, limit, connection) for limit in limits]

    async def body() -> None:
        async with AsyncExitStack() as stack:
            for each in all_outcomes:
                stack.push_async_callback(each.app.aclose)
                await stack.enter_async_context(running_worker(each.app, lease="30s", **each.options))
            for each in all_outcomes:
                await each.all_run()
            other = connect(autocommit=False)
            for each in all_outcomes:
                lock(other, each.handles[0].id)
                if lock is lock_row:
                    lock(other, each.failing.id)
            for each in all_outcomes:
                each.go.set()
            began = time.monotonic()
            if lock is lock_row:
                await asyncio.gather(*(each.others_do_not_wait() for each in all_outcomes))
            await asyncio.sleep(max(0.0, seconds - (time.monotonic() - began)))
            other.rollback()
            await asyncio.gather(*(each.all_are_written_once() for each in all_outcomes))

    asyncio.run(body())


def test_an_outcome_waits_for_longer_than_the_lease(url: str, connect: Connect) -> None:
    app = Treadle(make_conninfo(url, options="-c lock_timeout=100ms"))
    runs: list[int] = []
    go = asyncio.Event()

    @app.job
    async def returns() -> int:
        runs.append(1)
        await go.wait()
        return 1

    async def body(worker: Worker) -> None:
        handle = await returns.aenqueue()
        await auntil(lambda: len(runs) == 1 and handle.job().status == "running")
        other = connect(autocommit=False)
        lock_row(other, handle.id)
        go.set()
        await asyncio.sleep(2.5)
        other.rollback()
        assert await handle.aresult(30) == 1

    run(app, body, lease="2s")
    assert len(runs) == 1


def test_the_next_job_of_a_key_may_be_locked(url: str, connect: Connect) -> None:
    """Finishing a job unblocks the next one with its key: its row, too, is waited for, and holds no other up."""
    app = Treadle(make_conninfo(url, options="-c lock_timeout=100ms"))
    runs: list[int] = []
    go = asyncio.Event()

    @app.job
    async def returns(number: int) -> int:
        runs.append(number)
        await go.wait()
        return number

    async def body(worker: Worker) -> None:
        first = await returns.using(key="k").aenqueue(number=1)
        second = await returns.using(key="k").aenqueue(number=2)
        third = await returns.aenqueue(number=3)
        await auntil(lambda: len(runs) == 2)
        other = connect(autocommit=False)
        lock_row(other, second.id)
        go.set()
        assert await third.aresult(30) == 3
        await asyncio.sleep(0.5)
        other.rollback()
        assert [await each.aresult(30) for each in (first, second)] == [1, 2]

    run(app, body)
    assert sorted(runs) == [1, 2, 3]
