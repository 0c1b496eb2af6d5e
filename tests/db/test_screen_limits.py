"""Shorter time limits for reads and changes on a screen, while other callers of the same database keep their own."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from chaos.proxy import Proxy
from psycopg import Connection

from treadle import Connections, DatabaseUnreachable, Treadle
from treadle.db.queries import operations
from treadle.db.queries.listing import get_clock
from treadle.db.query import Query
from treadle.db.screen_limits import ON_SCREEN, TimeLimits, limited_to
from treadle.words.errors import TableLocked, TooSlow

BRIEF = TimeLimits(connection=0.4, answer=1.0, lock=0.4, read_lock=0.1)


def sleep(seconds: float) -> Query[None]:
    return Query("select pg_catalog.pg_sleep(%(seconds)s)", {"seconds": seconds}, lambda rows: None)


async def fails_with(error: type[Exception], match: str, call: Callable[[], Awaitable[Any]]) -> float:
    began = time.monotonic()
    with pytest.raises(error, match=match):
        await call()
    return time.monotonic() - began


def test_a_read_without_an_answer_ends_sooner_and_others_wait(url: str) -> None:
    proxy = Proxy(url)
    app = Treadle(proxy.url, connections=Connections(pool_size=2))

    async def body() -> None:
        await app.database.aread(get_clock())
        proxy.go_silent()
        with limited_to(BRIEF):
            seconds = await fails_with(
                DatabaseUnreachable, "does not answer", lambda: app.database.aread(get_clock(), 30)
            )
        assert 0.9 < seconds < 29
        proxy.black_hole_everything(True)
        with limited_to(BRIEF):
            seconds = await fails_with(DatabaseUnreachable, "no connection", lambda: app.database.aread(get_clock()))
        assert 0.3 < seconds < 20
        # Without it, the same database waits for 5 seconds.
        seconds = await fails_with(DatabaseUnreachable, "within 5 seconds", lambda: app.database.aread(get_clock()))
        assert seconds > 4
        await app.aclose()

    asyncio.run(body())
    proxy.close()


def test_a_read_does_not_wait_for_a_busy_pool(url: str) -> None:
    app = Treadle(url, connections=Connections(pool_size=1))

    async def body() -> None:
        async with app.database.atransaction():
            with limited_to(BRIEF):
                seconds = await fails_with(
                    DatabaseUnreachable, "all 1 were in use", lambda: app.database.aread(get_clock())
                )
        assert seconds < 20
        await app.aclose()

    asyncio.run(body())


def test_the_server_cancels_a_slow_read_before_the_client_gives_up(app: Treadle) -> None:
    async def body() -> None:
        with limited_to(BRIEF):
            await fails_with(TooSlow, "too long", lambda: app.database.aread(sleep(20)))
        # It holds for the block only.
        await app.database.aread(sleep(0.7))
        await app.aclose()

    asyncio.run(body())


def test_a_change_that_waits_for_a_lock_is_not_made(app: Treadle, connection: Connection[Any]) -> None:
    async def body() -> None:
        pause = operations.pause("films", None, "ada", None)
        with limited_to(BRIEF):
            await fails_with(TooSlow, "nothing was changed", lambda: app.database.arun(pause))
        await app.aclose()

    with connection.transaction():
        connection.execute("lock table pauses in access exclusive mode")
        asyncio.run(body())
    assert connection.execute("select count(*) from pauses").fetchone() == (0,)


def test_a_read_that_waits_for_a_lock_says_so_before_it_is_slow(app: Treadle, connection: Connection[Any]) -> None:
    async def body() -> None:
        with limited_to(ON_SCREEN._replace(answer=60.0)):
            await fails_with(TableLocked, "has locked a table", lambda: app.database.aread(read, 60))
            await app.database.aread(get_clock())  # needs no table
        await app.aclose()

    read: Query[None] = Query("select from treadle.jobs limit 1", {}, lambda rows: None)
    with connection.transaction():
        connection.execute("lock table jobs in access exclusive mode")
        asyncio.run(body())


def test_it_reaches_tasks_that_are_started_within(app: Treadle) -> None:
    async def body() -> None:
        with limited_to(BRIEF):
            task = asyncio.create_task(app.database.aread(sleep(20)))
        with pytest.raises(TooSlow):
            await task
        await app.aclose()

    asyncio.run(body())
