"""One connection that reconnects (treadle/db/reconnecting.py)."""

import asyncio
import logging

import pytest

from treadle.db.query import Query
from treadle.db.reconnecting import ReconnectingConnection


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
