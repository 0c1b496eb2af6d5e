"""Enqueueing jobs of a function: options, transactions, and many jobs at once."""

import asyncio
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.support.apps import count_pending, run
from treadle import InvalidArgument, InvalidPayload, JobNotFound, JobQueue, Priority, Retries, Status, Treadle


def test_the_defaults_of_the_decorator_reach_the_row(app: Treadle) -> None:
    @app.job
    def plain() -> None: ...

    @app.job(name="imports", priority=Priority.BACKFILL, queue="slow", retry=Retries(4))
    def import_rows() -> None: ...

    row = plain.enqueue().job()
    assert (row.job_type, row.priority, row.queue, row.max_attempts, row.key) == ("plain", 100, "default", 3, None)
    row = import_rows.enqueue().job()
    assert (row.job_type, row.priority, row.queue, row.max_attempts) == ("imports", 30, "slow", 5)
    assert [handle.job().queue for handle in import_rows.enqueue_many([{}, {}])] == ["slow", "slow"]


def test_using_sets_options_for_one_job(app: Treadle) -> None:
    @app.job(priority=5, retry=Retries(1))
    def welcome(user_id: int) -> None: ...

    moment = datetime(2100, 1, 1, tzinfo=UTC)
    row = welcome.using(priority=Priority.EXPLICIT, queue="mail", run_at=moment, key="user:7").enqueue(7).job()
    assert (row.priority, row.queue, row.run_at, row.key) == (150, "mail", moment, "user:7")
    assert row.max_attempts == 2
    row = welcome.using(delay="10m", priority=1).using(priority=2, retry=Retries(8)).enqueue(7).job()
    assert (row.priority, row.max_attempts) == (2, 9)
    assert timedelta(minutes=9) < row.run_at - row.created_at <= timedelta(minutes=10)
    row = welcome.enqueue(7).job()
    assert (row.priority, row.queue, row.max_attempts, row.key) == (5, "default", 2, None)
    assert row.run_at <= row.created_at


def test_invalid_options_are_refused_at_enqueue(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def welcome(user_id: int) -> None: ...

    moment = datetime(2100, 1, 1, tzinfo=UTC)
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"priority": "high"}, InvalidArgument, "priority must be an integer"),
        ({"retry": Retries(1, on=OSError)}, InvalidArgument, "for one job, retry can only say how often"),
        ({"delay": "soon"}, InvalidArgument, "delay must be a duration such as"),
        ({"delay": 1, "run_at": moment}, InvalidArgument, "either run_at or delay, not both"),
        ({"queue": ""}, InvalidArgument, "queue must be a string of 1 to 50 characters"),
        ({"key": "k" * 201}, InvalidArgument, "key must be a string of 1 to 200 characters"),
        ({"connection": 7}, InvalidArgument, "or Django, got int"),
        ({"colour": "red"}, InvalidArgument, r"using\(\) has no option 'colour'"),
    ]
    for options, kind, problem in wrong:
        with pytest.raises(kind, match=problem):
            welcome.using(**options).enqueue(7)
    assert count_pending(queue) == 0


def test_jobs_commit_and_roll_back_with_the_callers_rows(
    app: Treadle, queue: JobQueue, url: str, count_orders: Callable[[], int]
) -> None:
    @app.job
    def ship(order_id: int) -> None: ...

    with psycopg.connect(url) as connection:
        mine = ship.using(connection=connection)
        connection.execute("insert into public.orders values (1)")
        lost = [mine.enqueue(1), *mine.using(key="k").enqueue_many([{"order_id": 1}] * 2)]
        with pytest.raises(JobNotFound):
            lost[0].status()
        connection.rollback()
        assert (count_orders(), count_pending(queue)) == (0, 0)

        connection.execute("insert into public.orders values (2)")
        kept = mine.enqueue(2)
        with pytest.raises(InvalidPayload):
            mine.enqueue("two")  # type: ignore[arg-type]
        connection.commit()
        assert (count_orders(), count_pending(queue)) == (1, 1)
        assert kept.status() == Status.PENDING

        with pytest.raises(InvalidArgument, match="sync connection"):
            asyncio.run(mine.aenqueue(3))


def test_jobs_commit_and_roll_back_with_the_callers_rows_asynchronously(
    app: Treadle, queue: JobQueue, url: str, count_orders: Callable[[], int]
) -> None:
    @app.job
    async def ship(order_id: int) -> None: ...

    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            mine = ship.using(connection=connection)
            await connection.execute("insert into public.orders values (1)")
            await mine.aenqueue(1)
            await mine.aenqueue_many([{"order_id": 1}] * 2)
            await connection.rollback()
            assert (count_orders(), count_pending(queue)) == (0, 0)

            async with connection.transaction():
                await connection.execute("insert into public.orders values (2)")
                kept = await mine.aenqueue(2)
            assert (count_orders(), count_pending(queue)) == (1, 1)
            assert await kept.astatus() == Status.PENDING

            with pytest.raises(InvalidArgument, match="async connection"):
                mine.enqueue(3)

    run(app, main())


def test_enqueue_many_keeps_the_order(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def welcome(user_id: int, on: date | None = None) -> None: ...

    handles = welcome.using(priority=7).enqueue_many({"user_id": n} for n in range(5_100))
    assert len(handles) == 5_100
    claimed = queue.claim(["welcome"], 5_100)
    assert [job.id for job in claimed] == [handle.id for handle in handles]
    assert [job.data for job in claimed] == [{"user_id": n} for n in range(5_100)]
    assert {job.priority for job in claimed} == {7}
    (dated,) = welcome.enqueue_many([{"user_id": 1, "on": date(2024, 1, 1)}])
    assert dated.job().data == {"user_id": 1, "on": "2024-01-01"}
    keyed = welcome.enqueue_many([{"user_id": 1}, {"user_id": 2}], keys=["a", None])
    assert [handle.job().key for handle in keyed] == ["a", None]
    assert welcome.enqueue_many([]) == []


def test_enqueue_many_names_an_invalid_job_and_enqueues_nothing(app: Treadle, queue: JobQueue) -> None:
    @app.job
    def welcome(user_id: int, note: float = 0.0) -> None: ...

    good = {"user_id": 1}
    bad: list[tuple[Any, str]] = [
        ({"user_id": "two"}, r"user_id: .*got a value of type str"),
        ({}, "missing: user_id;"),
        ({"colour": "red"}, "missing: user_id; unexpected: colour;"),
        ({"user_id": 2, "note": float("inf")}, "note: inf is not a JSON number"),
        (7, "valid dictionary, got a value of type int"),
    ]
    for call, problem in bad:
        with pytest.raises(InvalidPayload, match=rf"\[2\].*{problem}"):
            welcome.enqueue_many([good, good, call, good])
        with pytest.raises(InvalidPayload, match=rf"\[2\].*{problem}"):
            run(app, welcome.aenqueue_many([good, good, call, good]))
    with pytest.raises(InvalidArgument, match="one element per job, got 1 for 2 jobs"):
        welcome.enqueue_many([good, good], keys=["a"])
    assert count_pending(queue) == 0


def test_enqueue_many_uses_the_same_key_for_all(app: Treadle) -> None:
    @app.job
    def welcome(user_id: int) -> None: ...

    handles = welcome.using(key="user:7").enqueue_many([{"user_id": 7}] * 2)
    assert [handle.job().key for handle in handles] == ["user:7", "user:7"]
