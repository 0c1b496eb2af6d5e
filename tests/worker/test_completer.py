"""Outcomes that cannot be written, or whose writing fails."""

import asyncio
from typing import Any

import pytest
from psycopg import Connection

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
