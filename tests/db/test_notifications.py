"""The listener: a separate connection that receives notifications."""

import asyncio
from typing import Any

import pytest

from treadle.db.notifications import NotificationListener
from treadle.db.reconnecting import open_connection


def test_a_listener_that_is_cancelled_while_connecting_stops(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        came: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        monkeypatch.setattr("treadle.db.notifications.open_connection", lambda *_: came)
        listening = asyncio.create_task(NotificationListener(url, "treadle", "work", lambda _: None, "test").run())
        await asyncio.sleep(0.01)
        connection = await open_connection(url, "test")
        came.set_result(connection)
        listening.cancel()
        done, _ = await asyncio.wait([listening], timeout=3)
        assert done
        await connection.close()

    asyncio.run(body())
