"""What a transaction of the caller's has set in its session, and the next user of the connection."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from treadle import Connections, Treadle

SETTINGS = ("role", "search_path", "statement_timeout", "default_transaction_read_only", "app.tenant")
CHANGE = """
set role session_state_tenant;
set search_path = pg_temp;
set statement_timeout = '1h';
set default_transaction_read_only = on;
set app.tenant = 'acme'"""
READ = f"select {', '.join(f'current_setting({name!r}, true)' for name in SETTINGS)}"


@pytest.fixture
def tenant(connection: Connection[Any]) -> Iterator[None]:
    connection.execute("create role session_state_tenant")
    yield
    connection.execute("drop role session_state_tenant")


@pytest.fixture
def app(url: str) -> Iterator[Treadle]:
    app = Treadle(url, connections=Connections(pool_size=1))
    yield app
    app.close()


@pytest.mark.usefixtures("tenant")
def test_a_connection_comes_back_as_it_was(app: Treadle) -> None:
    with app.database.transaction() as transaction:
        before = transaction.execute(READ).fetchone()
    with app.database.transaction() as transaction:
        transaction.execute(CHANGE)
    with app.database.transaction() as transaction:
        found = transaction.execute(READ).fetchone()
        assert found is not None
        assert [each or None for each in found] == [each or None for each in before or ()]


@pytest.mark.usefixtures("tenant")
def test_an_async_connection_comes_back_as_it_was(app: Treadle) -> None:
    async def body() -> list[Any]:
        seen = []
        for change in ("select 1", CHANGE, "select 1"):
            async with app.database.atransaction() as transaction:
                seen.append([each or None for each in await (await transaction.execute(READ)).fetchone() or ()])
                await transaction.execute(change.encode())
        await app.aclose()
        return seen

    first, second, third = asyncio.run(body())
    assert first == second == third


def test_a_transaction_that_committed_is_not_failed_by_a_connection_that_breaks_then(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.db.transport.AS_OPENED", b"select pg_terminate_backend(pg_backend_pid())")
    with app.database.transaction() as transaction:
        transaction.execute("select treadle.enqueue('a')")
    assert connection.execute("select count(*) from jobs").fetchone() == (1,)
    assert len(app.queue.list().jobs) == 1
