"""Frequent statements are prepared on a direct connection to the server, and never through a pooler."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection
from psycopg.errors import DivisionByZero, InvalidTextRepresentation

from treadle import Connections, JobQueue
from treadle.db import runner
from treadle.db.queries import worker as worker_queries
from treadle.db.query import Query
from treadle.db.reconnecting import ReconnectingConnection

TIMES = 7
PREPARED: Query[list[str]] = Query(
    "select statement from pg_prepared_statements", {}, lambda rows: [row[0] for row in rows]
)


@pytest.fixture(params=["direct", "pooler"])
def expected(request: pytest.FixtureRequest) -> int:
    """How many prepared statements a session has after a statement was run a few times."""
    return 1 if request.param == "direct" else 0


@pytest.fixture
def database_url(url: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """With a pooler, pg_backend_pid() differs from the process that we connected to."""
    if not expected:
        monkeypatch.setattr(runner, "_SERVER_PROCESS", Query("select 1", {}, lambda rows: rows[0][0]))
    return url


def test_an_enqueue_is_prepared_on_a_direct_connection(database_url: str, expected: int) -> None:
    with JobQueue(database_url, connections=Connections(pool_size=1)) as queue:
        for _ in range(TIMES):
            queue.enqueue("a")
        assert len(queue._database.run(PREPARED)) == expected


def test_an_async_enqueue_is_prepared_on_a_direct_connection(database_url: str, expected: int) -> None:
    async def enqueue() -> list[str]:
        async with JobQueue(database_url, connections=Connections(pool_size=1)) as queue:
            for _ in range(TIMES):
                await queue.aenqueue("a")
            return await queue._database.arun(PREPARED)

    assert len(asyncio.run(enqueue())) == expected


def test_a_claim_of_a_worker_is_prepared_on_a_direct_connection(database_url: str, expected: int) -> None:
    async def claim() -> list[str]:
        reconnecting = ReconnectingConnection(database_url, "treadle", "a connection")
        for _ in range(TIMES):
            await reconnecting.run(worker_queries.claim("w", ["a"], 10, None))
        try:
            return await reconnecting.run(PREPARED)
        finally:
            await reconnecting.close()

    assert len(asyncio.run(claim())) == expected


def test_a_statement_that_is_planned_for_its_values_is_not_prepared(url: str) -> None:
    with JobQueue(url, connections=Connections(pool_size=1)) as queue:
        for _ in range(TIMES):
            queue.list(job_type="a")
        assert queue._database.run(PREPARED) == []


@pytest.mark.fresh_database
def test_no_statement_is_run_on_a_new_connection(url: str, connection: Connection[Any]) -> None:
    """A pool would wait for the reply, for ever if the connection hangs."""
    with JobQueue(url) as queue, queue._database.origin.taken():
        ours = "select query from pg_stat_activity where application_name = 'treadle' and datname = current_database()"
        assert {row[0] for row in connection.execute(ours).fetchall()} == {""}


VALUES: dict[str, Any] = {
    "small": 7,
    "large": 2**40,
    "text": "a % b",
    "nothing": None,
    "yes": True,
    "ratio": 0.1,
    "id": UUID(int=5),
    "names": ["a", 'b"c', "d,e"],
}
# Each value once, one of them twice, and an operator that is written with two percent signs.
ECHO = Query(
    "select %(small)s::int, %(large)s::bigint, %(text)s::text, %(nothing)s::text, %(yes)s::bool, "
    "%(ratio)s::double precision, %(id)s::uuid, %(names)s::text[], %(small)s::int %% 4",
    VALUES,
    list,
    often=True,
)


def test_a_prepared_statement_returns_what_an_unprepared_one_does(url: str) -> None:
    async def body() -> None:
        reconnecting = ReconnectingConnection(url, "treadle", "a connection")
        found = [await reconnecting.run(ECHO) for _ in range(TIMES)]
        assert found == [[(*VALUES.values(), 3)]] * TIMES
        larger = replace(ECHO, params={**VALUES, "small": 70_000, "text": None})
        assert (await reconnecting.run(larger))[0][:3] == (70_000, 2**40, None), "other types are prepared again"
        prepared = await reconnecting.run(PREPARED)
        assert len(prepared) == 2
        await reconnecting.close()

    asyncio.run(body())


def test_a_prepared_statement_that_fails_raises_what_an_unprepared_one_does(url: str) -> None:
    divided = Query("select 10 / %(by)s::int", {"by": 5}, lambda rows: rows[0][0], often=True)
    with JobQueue(url, connections=Connections(pool_size=1)) as queue:
        for _ in range(TIMES):
            assert queue._database.run(divided) == 2
        with pytest.raises(DivisionByZero):
            queue._database.run(replace(divided, params={"by": 0}))
        assert queue._database.run(divided) == 2


def test_a_statement_that_cannot_be_prepared_fails_each_time(url: str) -> None:
    broken = Query("select 'x'::int", {}, list, often=True)
    with JobQueue(url, connections=Connections(pool_size=1)) as queue:
        for _ in range(TIMES):
            with pytest.raises(InvalidTextRepresentation):
                queue._database.run(broken)
