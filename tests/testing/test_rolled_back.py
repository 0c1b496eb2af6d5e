"""A test that works in one transaction, on a connection of any library, and rolls back: drain() works inside it."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from treadle import Job, Retries, SchemaError, Treadle, chain
from treadle.testing import Drained, Harness, harness_for


@pytest.fixture
def exercised(app: Treadle) -> dict[str, Any]:
    @app.job(retry=Retries(1))
    def fetch(job: Job, n: int) -> int:
        job.progress(50, stage="fetching")
        job.event("fetched", n=n)
        if job.attempt == 1:
            job.save({"attempt": 1})
            raise ConnectionError
        assert job.checkpoint == {"attempt": 1}
        return n

    @app.job
    def double(n: int) -> int:
        return 2 * n

    @app.job
    async def later(job: Job, n: int) -> None:
        job.event("later", n=n)
        logging.getLogger("shop").warning("later")
        await double.using(key="k").aenqueue(n=n)
        await double.using(key="k").aenqueue(n=n)

    return {"fetch": fetch, "double": double, "later": later}


def jobs_of_others(url: str) -> int:
    with psycopg.connect(url) as connection:
        return len(connection.execute("select from treadle.jobs").fetchall())


def work(harness: Harness, jobs: dict[str, Any], url: str) -> None:
    fetched = jobs["fetch"].enqueue(n=3)
    assert harness.drain(follow=True, raise_errors=False) == Drained(completed=1, retried=1)
    assert fetched.result() == 3
    assert [each.name for each in fetched.events(follow=False)].count("fetched") == 2
    # Freed at commit, otherwise.
    chained = chain(jobs["double"].call(1), jobs["double"].call(), jobs["double"].call()).enqueue()
    assert harness.drain() == Drained(completed=3)
    assert chained.result() == 8
    # A claim does not look at what was noted so long ago.
    after = jobs["double"].using(after=[chained]).enqueue(n=7)
    harness.travel("1h")
    assert harness.drain() == Drained(completed=1)
    assert after.result() == 14
    jobs["later"].using(delay="1d").enqueue(n=1)
    harness.travel("1d")
    assert harness.drain() == Drained(completed=3)
    harness.assert_enqueued(jobs["double"], n=1, key="k")
    with harness.inline():
        assert jobs["double"].enqueue(n=5).result() == 10
    assert jobs_of_others(url) == 0


@pytest.fixture
def connection(prepared_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(prepared_url) as connection:
        yield connection
        connection.rollback()


def test_a_test_begins_at_the_real_time_whatever_another_has_left(
    app: Treadle, connection: psycopg.Connection[Any]
) -> None:
    connection.execute("select setval('treadle.test_offset', 86400000000)")
    with harness_for(app, connection=connection) as harness:
        assert abs(harness.now() - datetime.now(UTC)) < timedelta(minutes=1)


def test_a_test_whose_transaction_has_failed_does_not_harm_the_next(
    app: Treadle, connection: psycopg.Connection[Any], prepared_url: str
) -> None:
    with harness_for(app, url=prepared_url):
        pass
    with harness_for(app, connection=connection) as harness:
        harness.travel("9d")
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("select 1/0")
    connection.rollback()
    with harness_for(app, url=prepared_url) as harness:
        assert abs(harness.now() - datetime.now(UTC)) < timedelta(minutes=1)


def test_on_a_connection_of_psycopg(
    app: Treadle, connection: psycopg.Connection[Any], exercised: dict[str, Any], prepared_url: str
) -> None:
    for _ in range(2):  # the second time, everything is as before, also the clock
        with harness_for(app, connection=connection) as harness:
            work(harness, exercised, prepared_url)
        connection.rollback()
        assert jobs_of_others(prepared_url) == 0


def test_a_database_that_is_not_prepared_is_explained(app: Treadle, url: str) -> None:
    with psycopg.connect(url) as connection:
        with pytest.raises(SchemaError, match=r"call treadle\.testing\.prepare\(url\) once"):
            with harness_for(app, connection=connection):
                pass
        assert connection.execute("select 1").fetchall() == [(1,)]


@pytest.mark.parametrize("kind", ["session on psycopg", "connection on psycopg2"])
def test_on_sqlalchemy(app: Treadle, kind: str, exercised: dict[str, Any], prepared_url: str) -> None:
    from tests.support.callers import Caller

    with ExitStack() as stack:
        caller = Caller(prepared_url, kind, stack)
        with harness_for(app, connection=caller.connection) as harness:
            work(harness, exercised, prepared_url)
        caller.end("rollback")


def test_on_django_whose_connections_belong_to_their_thread(
    app: Treadle, exercised: dict[str, Any], prepared_url: str, url: str
) -> None:
    from tests.support.callers import set_up_django

    set_up_django({name: str(value) for name, value in conninfo_to_dict(url).items()})
    import django.db

    connection = django.db.connections["default"].copy()
    connection.settings_dict["NAME"] = conninfo_to_dict(prepared_url)["dbname"]
    connection.set_autocommit(False)
    try:
        with harness_for(app, connection=connection) as harness:
            work(harness, exercised, prepared_url)
    finally:
        connection.rollback()
        connection.close()


@pytest.mark.parametrize("kind", ["asyncpg connection", "async session on asyncpg", "async connection on psycopg"])
def test_on_async_connections(app: Treadle, kind: str, exercised: dict[str, Any], prepared_url: str) -> None:
    from tests.support.callers import Caller

    with ExitStack() as stack:
        caller = Caller(prepared_url, kind, stack)
        caller.begin()

        async def main() -> None:
            with harness_for(app, connection=caller.connection) as harness:
                await harness.areset_clock()
                await exercised["later"].using(delay="1d").aenqueue(n=1)
                assert await harness.adrain() == Drained()
                await harness.atravel("1d")
                assert await harness.adrain() == Drained(completed=3)
                await harness.aassert_enqueued(exercised["double"], n=1)
                await harness.areset_clock()

        caller.await_(main())
        caller.end("rollback")
    assert jobs_of_others(prepared_url) == 0
