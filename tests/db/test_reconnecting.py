"""One connection that reconnects (treadle/db/reconnecting.py)."""

import asyncio
import logging
import time

import pytest
from chaos.proxy import Proxy

from tests.conftest import Connect
from tests.support.workers import auntil
from treadle.db.own_connection import limited
from treadle.db.query import Query
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection, open_connection


def test_closing_it_after_a_statement_was_abandoned_logs_nothing(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="psycopg")

    async def abandon_and_close() -> None:
        connection = ReconnectingConnection(url, "treadle", "test")
        await connection.run(Query("select 1", {}, list))
        work = asyncio.create_task(connection.run(Query("select pg_sleep(30)", {}, list)))
        await asyncio.sleep(0.01)
        work.cancel()
        await asyncio.wait({work})
        await connection.close()

    for _ in range(5):
        asyncio.run(abandon_and_close())
    assert caplog.text == ""


def test_an_answer_that_arrives_while_the_event_loop_is_blocked_is_in_time(url: str) -> None:
    query: Query[None] = Query("select pg_sleep(0.1)", {}, lambda rows: None)

    async def body() -> None:
        connection = ReconnectingConnection(url, "treadle", "test", timeout=0.5)
        await connection.run(query)
        for steps in (1, 2, 10):  # before the statement was sent, and after it
            work = asyncio.create_task(connection.run(query))
            for _ in range(steps):
                await asyncio.sleep(0)
            time.sleep(0.7)  # noqa: ASYNC251 - a handler that blocks the event loop
            await work
        # A server that does not answer is still noticed, in time.
        began = time.monotonic()
        with pytest.raises(DatabaseUnavailable, match=r"no answer within 0\.5 seconds"):
            await connection.run(Query("select pg_sleep(30)", {}, list))
        assert time.monotonic() - began < 30
        await connection.close()
        async with await open_connection(url, "test") as other:
            with limited(other, 0.5):
                asked = asyncio.create_task(other.execute("select pg_sleep(0.1)"))
                await asyncio.sleep(0.01)
                time.sleep(0.7)  # noqa: ASYNC251
                await asked

    asyncio.run(body())


def test_time_in_which_the_event_loop_was_blocked_does_not_count(url: str) -> None:
    async def body() -> None:
        connection = ReconnectingConnection(url, "treadle", "test", timeout=1.0)
        await connection.run(Query("select 1", {}, list))
        work = asyncio.create_task(connection.run(Query("select pg_sleep(1.4)", {}, list)))
        await asyncio.sleep(0.05)
        time.sleep(1.2)  # noqa: ASYNC251 - a handler that blocks the event loop
        await work
        await connection.close()

    asyncio.run(body())


def test_the_server_cancels_an_abandoned_statement(url: str, connect: Connect) -> None:
    waits = "select pg_sleep(60) /* abandoned by a test */"

    def running() -> int:
        with connect() as connection:
            return len(connection.execute("select from pg_stat_activity where query = %s", [waits]).fetchall())

    async def body() -> None:
        connection = ReconnectingConnection(url, "treadle", "test", timeout=0.5)
        with pytest.raises(DatabaseUnavailable, match="no answer within"):
            await connection.run(Query(waits, {}, list))
        work = asyncio.create_task(connection.run(Query(waits, {}, list)))
        await auntil(lambda: running() > 0)
        work.cancel()
        await asyncio.wait({work})
        assert await connection.run(Query("select 1", {}, list)) == [(1,)]
        await auntil(lambda: running() == 0)
        await connection.close()

    asyncio.run(body())


def test_a_cancelled_statement_ends_although_the_server_does_not_respond(url: str) -> None:
    proxy = Proxy(url)

    async def body() -> None:
        connection = ReconnectingConnection(proxy.url, "treadle", "test")
        await connection.run(Query("select 1", {}, list))
        proxy.black_hole_everything(True)
        work = asyncio.create_task(connection.run(Query("select 2", {}, list)))
        await asyncio.sleep(0.05)
        began = time.monotonic()
        work.cancel()
        await asyncio.wait({work})
        assert time.monotonic() - began < 4.9  # the driver would wait for 5 seconds
        await connection.close()

    try:
        asyncio.run(body())
    finally:
        proxy.close()
