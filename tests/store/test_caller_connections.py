"""Stored contents and their uses on a caller's connection are part of the caller's transaction."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg import AsyncConnection, Connection
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.pool import NullPool

from tests.support.apps import run
from tests.support.stores import CONTENT, Resize, count_rows, sweep, unknown_reference, uses
from treadle import JobQueue, Once, StoredNotFound, Treadle


@contextmanager
def psycopg_connection(url: str) -> Iterator[tuple[Any, Callable[[], Any]]]:
    with psycopg.connect(url) as connection:
        yield connection, connection.rollback


@contextmanager
def sqlalchemy_connection(url: str, driver: str) -> Iterator[tuple[Any, Callable[[], Any]]]:
    parts = conninfo_to_dict(url)
    engine = sqlalchemy.create_engine(
        f"postgresql+{driver}://", poolclass=NullPool, connect_args={name: str(value) for name, value in parts.items()}
    )
    with engine.connect() as connection:
        yield connection, connection.rollback
    engine.dispose()


LENDERS: dict[str, Callable[[str], Any]] = {
    "psycopg": psycopg_connection,
    "SQLAlchemy on psycopg": lambda url: sqlalchemy_connection(url, "psycopg"),
    "SQLAlchemy on psycopg2": lambda url: sqlalchemy_connection(url, "psycopg2"),
}


@pytest.mark.parametrize("kind", LENDERS)
def test_a_use_commits_and_rolls_back_with_the_callers_transaction(
    app: Treadle, resize: Resize, url: str, connection: Connection[Any], kind: str
) -> None:
    one, two, three = (app.store(b"%d" % n) for n in range(3))
    with LENDERS[kind](url) as (mine, rollback):
        lent = resize.using(connection=mine)
        lent.enqueue(one)
        lent.enqueue_many([{"picture": two}] * 2)
        lent.using(unique=Once(key="u")).enqueue(three)
        assert sweep(url) == 0  # it may still commit
        rollback()
        assert uses(connection) == set()
        handle = lent.enqueue(one)
        mine.commit()
    assert uses(connection) == {(one.id, handle.id)}
    assert sweep(url) == 2
    assert app.read(one) == b"0"


@pytest.mark.parametrize("kind", LENDERS)
def test_an_unknown_reference_leaves_the_callers_transaction_usable(
    app: Treadle, resize: Resize, url: str, queue: JobQueue, kind: str
) -> None:
    with LENDERS[kind](url) as (mine, _):
        lent = resize.using(connection=mine)
        with pytest.raises(StoredNotFound):
            lent.enqueue(unknown_reference())
        with pytest.raises(StoredNotFound):
            lent.enqueue_many([{"picture": app.store(b"1")}, {"picture": unknown_reference()}])
        kept = lent.enqueue(app.store(b"2"))
        mine.commit()
    assert [job.id for job in queue.list().jobs] == [kept.id]


def test_the_store_works_on_a_connection_of_asyncpg(
    app: Treadle, resize: Resize, url: str, connection: Connection[Any]
) -> None:
    parts = conninfo_to_dict(url)
    stored = app.store(CONTENT)

    async def main() -> tuple[Any, bytes]:
        mine = await asyncpg.connect(
            host=parts["host"],
            user=parts["user"],
            password=parts.get("password"),
            database=parts["dbname"],
            port=parts.get("port", 5432),
        )
        try:
            lent = resize.using(connection=mine)
            transaction = mine.transaction()
            await transaction.start()
            await lent.aenqueue(stored)
            await transaction.rollback()
            with pytest.raises(StoredNotFound):
                await lent.aenqueue(unknown_reference())
            kept = await lent.aenqueue(stored)
            (many,) = await lent.aenqueue_many([{"picture": stored}])
            unique = await lent.using(unique=Once(key="u")).aenqueue(stored)
            on_it = Treadle(mine)
            return {kept.id, many.id, unique.id}, await on_it.aread(await on_it.astore(CONTENT))
        finally:
            await mine.close()

    ids, content = run(app, main())
    assert uses(connection) == {(stored.id, each) for each in ids}
    assert content == CONTENT


def test_bytes_are_converted_for_the_driver_of_the_caller(url: str) -> None:
    for driver in ("psycopg", "psycopg2"):
        with sqlalchemy_connection(url, driver) as (mine, _):
            app = Treadle(mine)
            assert app.read(app.store(CONTENT)) == CONTENT


def test_stored_contents_are_part_of_the_callers_transaction(url: str, connection: Connection[Any]) -> None:
    with psycopg.connect(url) as mine:
        app = Treadle(mine)
        stored = app.store(CONTENT)
        assert app.read(stored) == CONTENT
        assert count_rows(connection, "stored") == 0
        mine.rollback()
        with pytest.raises(StoredNotFound):
            app.read(stored)

    async def main() -> bytes:
        async with await AsyncConnection.connect(url) as mine:
            app = Treadle(mine)
            return await app.aread(await app.astore(CONTENT))

    assert asyncio.run(main()) == CONTENT
