"""Pools after an outage of the server: their dead connections are replaced before a caller gets one."""

import asyncio
import subprocess
import sys
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import psutil
import pytest
from chaos.proxy import Proxy
from psycopg import Connection

from tests.support.workers import count, until
from treadle import JobQueue

pytestmark = pytest.mark.fresh_database

OURS = "application_name = 'treadle' and datname = current_database()"


def terminate_connections(connection: Connection[Any]) -> int:
    """Terminate our connections; return how many there were."""
    query = f"select pid, pg_terminate_backend(pid) from pg_stat_activity where {OURS}"
    found = connection.execute(query).fetchall()
    until(lambda: not connection.execute(f"select 1 from pg_stat_activity where {OURS}").fetchone())
    # A backend closes its socket a moment after it has left pg_stat_activity.
    until(lambda: not any(psutil.pid_exists(pid) for pid, _ in found))
    return len(found)


def test_no_call_fails_because_of_an_earlier_outage(url: str, connection: Connection[Any]) -> None:
    with JobQueue(url) as queue:
        with ExitStack() as taken:
            for _ in range(4):
                taken.enter_context(queue._database.origin.taken())
        assert terminate_connections(connection) >= 4
        for _ in range(8):
            queue.enqueue("a")
        assert count(connection) == 8


def test_no_async_call_fails_because_of_an_earlier_outage(url: str, connection: Connection[Any]) -> None:
    async def calls() -> None:
        async with JobQueue(url) as queue:
            async with AsyncExitStack() as taken:
                for _ in range(4):
                    await taken.enter_async_context(queue._database.origin.ataken())
            assert await asyncio.to_thread(terminate_connections, connection) >= 4
            await asyncio.gather(*(queue.aenqueue("a") for _ in range(8)))

    asyncio.run(calls())
    assert count(connection) == 8


UNCLOSED = """
import asyncio, sys
from treadle import JobQueue

async def main() -> None:
    queue = JobQueue(sys.argv[1])
    await queue.aenqueue("a")
    print("enqueued", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    # They need more connections than the pool has, and can open no more.
    await asyncio.gather(*(queue.aenqueue("a") for _ in range(5)))

asyncio.run(main())
"""


def test_a_program_exits_while_its_unclosed_pool_still_connects(url: str) -> None:
    proxy = Proxy(url)
    program = subprocess.Popen(
        [sys.executable, "-c", UNCLOSED, proxy.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert program.stdout
        assert program.stdout.readline() == "enqueued\n"
        proxy.ignore_new_connections()
        program.communicate("\n", timeout=60)
        assert program.returncode == 0
    finally:
        program.kill()
        program.communicate()
        proxy.close()
