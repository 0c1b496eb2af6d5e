"""job.transact(): steps whose writes and results are committed together, exactly once."""

import contextlib
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection, Connection

from tests.support.effects import written
from tests.support.workers import SOON, auntil, one, result_of, run
from treadle import Backoff, Job, JobFailed, Retries, Treadle
from treadle.db.database import Database
from treadle.worker.worker import Worker

pytestmark = [pytest.mark.usefixtures("effects")]


def test_a_step_and_its_writes_are_committed_together(app: Treadle, connection: Connection[Any]) -> None:
    def debit(transaction: Connection[Any], amount: int) -> int:
        transaction.execute("insert into public.effects values (%s)", [str(amount)])
        return -amount

    async def adebit(transaction: AsyncConnection[Any], amount: int) -> int:
        await transaction.execute("insert into public.effects values (%s)", [str(amount)])
        return -amount

    @app.job(retry=Retries(backoff=SOON))
    def work(job: Job) -> int:
        total = job.transact("first", debit, 1) + job.transact("second", debit, 2)
        if job.attempt == 1:
            raise ValueError
        return total

    @app.job(retry=Retries(backoff=SOON))
    async def awork(job: Job) -> int:
        total = await job.atransact("first", adebit, 3)
        if job.attempt == 1:
            raise ValueError
        return total

    assert result_of(app, work) == -3
    assert result_of(app, awork) == -3
    assert written(connection) == ["1", "2", "3"]


def test_a_step_that_raises_writes_nothing(app: Treadle, connection: Connection[Any]) -> None:
    def debit(transaction: Connection[Any]) -> None:
        transaction.execute("insert into public.effects values ('a')")
        raise ValueError("no")

    @app.job(retry=Retries(0))
    def work(job: Job) -> None:
        job.transact("debit", debit)

    with pytest.raises(JobFailed, match="no"):
        result_of(app, work)
    assert written(connection) == []
    assert one(connection, "select count(*) from steps") == 0


def test_a_step_of_a_job_that_was_taken_away_writes_nothing(app: Treadle, connection: Connection[Any]) -> None:
    def debit(transaction: Connection[Any]) -> None:
        transaction.execute("insert into public.effects values ('a')")
        connection.execute("update jobs set lease = lease + 1, worker_id = 'other'")

    @app.job
    def work(job: Job) -> None:
        job.transact("debit", debit)

    async def body(worker: Worker) -> None:
        await work.aenqueue()
        await auntil(lambda: one(connection, "select lease from jobs") == 2)
        await auntil(lambda: not len(worker.running))

    run(app, body)
    assert written(connection) == []
    assert one(connection, "select count(*) from steps") == 0


def test_a_step_that_the_handler_tries_again_is_done_once_over_all_attempts(
    app: Treadle, connection: Connection[Any]
) -> None:
    calls: list[str] = []

    @app.job(retry=Retries(2, backoff=Backoff(first="10ms")))
    def transfer(job: Job) -> str:
        def debit(transaction: Connection[Any]) -> None:
            calls.append("debit")
            transaction.execute("insert into public.effects values ('debit')")
            if len(calls) == 1:
                raise OSError("try again")

        def announce() -> str:
            return "announced"

        try:
            job.transact("debit", debit)
        except OSError:
            job.transact("debit", debit)
        if job.attempt == 1:
            raise ValueError("after it")
        return job.step("announce", announce)

    async def body(_: Worker) -> None:
        assert await (await transfer.aenqueue()).aresult(30) == "announced"

    run(app, body)
    assert written(connection) == ["debit"]


def test_a_transact_whose_commit_reply_was_lost_is_done_once_if_the_handler_tries_it_again(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[int] = []
    whole = Database.transaction

    @contextlib.contextmanager
    def forgetful(self: Database) -> Any:
        with whole(self) as transaction:
            yield transaction
        if not lost:
            lost.append(1)
            raise psycopg.OperationalError("the answer to the commit was lost")

    monkeypatch.setattr(Database, "transaction", forgetful)

    @app.job(retry=Retries(0))
    def transfer(job: Job) -> int:
        def debit(transaction: Connection[Any]) -> int:
            transaction.execute("insert into public.effects values ('debit')")
            return len(lost)

        try:
            return job.transact("debit", debit)
        except psycopg.OperationalError:
            return job.transact("debit", debit)

    async def body(_: Worker) -> None:
        assert await (await transfer.aenqueue()).aresult(30) == 0

    run(app, body)
    assert written(connection) == ["debit"]
