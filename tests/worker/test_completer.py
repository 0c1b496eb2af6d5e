"""Outcomes that cannot be written, or whose writing fails."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from tests.conftest import Connect
from tests.support.workers import auntil, run
from treadle import JobFailed, Treadle
from treadle.worker import Worker


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


@pytest.mark.parametrize("limit", ["lock_timeout=100ms", "statement_timeout=80ms", "lock_timeout=0"])
@pytest.mark.parametrize(("lock", "seconds"), [(lock_row, 0.13), (lock_row, 1.3), (lock_table, 0.7)])
def test_an_outcome_waits_for_its_row_and_holds_no_other_up(
    url: str, connect: Connect, limit: str, lock: Lock, seconds: float
) -> None:
    app = Treadle(make_conninfo(url, options=f"-c {limit}"))
    go = asyncio.Event()
    runs: list[int] = []

    @app.job
    async def returns(number: int) -> int:
        runs.append(number)
        await go.wait()
        return number

    @app.job(max_attempts=1)
    async def fails() -> None:
        runs.append(-1)
        await go.wait()
        raise ValueError("on purpose")

    async def body(worker: Worker) -> None:
        unlimited = connect()
        handles = [returns.using(connection=unlimited).enqueue(number=number) for number in range(3)]
        failing = fails.using(connection=unlimited).enqueue()
        await auntil(lambda: len(runs) == 4)
        await auntil(lambda: all(each.job().status == "running" for each in (*handles, failing)))
        other = connect(autocommit=False)
        lock(other, handles[0].id)
        if lock is lock_row:
            lock(other, failing.id)
        go.set()
        began = time.monotonic()
        if lock is lock_row:
            # The others do not wait for it.
            assert [await each.aresult(30) for each in handles[1:]] == [1, 2]
            assert seconds < 1 or time.monotonic() - began < 2
        await asyncio.sleep(max(0.0, seconds - (time.monotonic() - began)))
        other.rollback()
        assert [await each.aresult(30) for each in handles] == [0, 1, 2]
        with pytest.raises(JobFailed, match="on purpose"):
            await failing.aresult(30)

    run(app, body)
    assert sorted(runs) == [-1, 0, 1, 2]


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
