"""The pools after the server was away: whatever they hold is dead, and no caller has to find that out."""

import asyncio
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import psutil
from psycopg import Connection

from tests.workers import count, until
from treadle import JobQueue

OURS = "application_name = 'treadle' and datname = current_database()"


def throw_out(connection: Connection[Any]) -> int:
    """How many there were."""
    query = f"select pid, pg_terminate_backend(pid) from pg_stat_activity where {OURS}"
    found = connection.execute(query).fetchall()
    until(lambda: not connection.execute(f"select 1 from pg_stat_activity where {OURS}").fetchone())
    # It closes its end a moment after it has left the list.
    until(lambda: not any(psutil.pid_exists(pid) for pid, _ in found))
    return len(found)


def test_no_call_fails_because_the_server_was_away_before_it(url: str, connection: Connection[Any]) -> None:
    with JobQueue(url) as queue:
        with ExitStack() as taken:
            for _ in range(4):
                taken.enter_context(queue._database._connection())
        assert throw_out(connection) >= 4
        for _ in range(8):
            queue.enqueue("a")
        assert count(connection) == 8


def test_nor_an_async_call(url: str, connection: Connection[Any]) -> None:
    async def calls() -> None:
        async with JobQueue(url) as queue:
            async with AsyncExitStack() as taken:
                for _ in range(4):
                    await taken.enter_async_context(queue._database._aconnection())
            assert await asyncio.to_thread(throw_out, connection) >= 4
            await asyncio.gather(*(queue.aenqueue("a") for _ in range(8)))

    asyncio.run(calls())
    assert count(connection) == 8
