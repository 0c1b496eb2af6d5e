"""Connections follow a database that is started again, or that moves to another server."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.conftest import Connect
from treadle import JobQueue, Treadle
from treadle.db.database import Database
from treadle.db.queries import jobs as job_queries
from treadle.db.reconnecting import ReconnectingConnection
from treadle.db.url import described
from treadle.worker.keeper import Keeper

TERMINATE = """select pg_terminate_backend(pid, 10000) from pg_stat_activity
    where datname = current_database() and application_name = 'treadle'"""


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server whose machine hangs: it can be connected to, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def after(first: socket.socket, url: str) -> str:
    """A URL of two servers, of which that is the first."""
    host, port = conninfo_to_dict(url)["host"], conninfo_to_dict(url).get("port", 5432)
    return make_conninfo(url, host=f"127.0.0.1,{host}", port=f"{first.getsockname()[1]},{port}")


def parameters(app: Treadle) -> dict[str, str]:
    with app.database.transaction() as connection:
        return connection.info.get_parameters()


def test_a_pooled_connection_notices_within_seconds_that_its_server_is_gone(app: Treadle) -> None:
    said = parameters(app)
    assert (said["tcp_user_timeout"], said["keepalives_idle"], said["connect_timeout"]) == ("10000", "5", "5")


def test_what_the_url_says_of_timeouts_counts(url: str) -> None:
    app = Treadle(make_conninfo(url, tcp_user_timeout=3000, connect_timeout=7))
    said = parameters(app)
    app.close()
    assert (said["tcp_user_timeout"], said["connect_timeout"]) == ("3000", "7")


def occupy(app: Treadle, count: int) -> None:
    """Let the pool have so many connections, all idle in the end."""
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(app.database.transaction())


def test_idle_connections_that_were_cut_are_replaced_before_anybody_sees_it(app: Treadle, connect: Connect) -> None:
    occupy(app, 5)
    connect().execute(TERMINATE)
    began = time.monotonic()
    for n in range(5):
        app.queue.enqueue("a", {"n": n})
    # One by one, with a pause after each that is found dead, it would take seven seconds.
    assert time.monotonic() - began < 5


def test_so_are_those_of_an_async_pool(url: str, connect: Connect) -> None:
    async def cut() -> None:
        async with JobQueue(url) as queue:
            async with queue._database.atransaction(), queue._database.atransaction():
                pass
            await asyncio.to_thread(connect().execute, TERMINATE)
            await queue.aenqueue("a", {})

    asyncio.run(cut())


def refuse_writes(connection: Connection[Any]) -> None:
    connection.execute("set session characteristics as transaction read only")


def test_a_pool_leaves_a_server_that_takes_no_more_writes(url: str) -> None:
    with JobQueue(url, pool_size=3) as queue:
        with ExitStack() as stack:
            for _ in range(3):
                refuse_writes(stack.enter_context(queue._database.transaction()))
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            queue.enqueue("a", {})
        for n in range(5):
            queue.enqueue("a", {"n": n})


def test_so_does_an_async_pool(url: str) -> None:
    async def leave() -> None:
        async with JobQueue(url, pool_size=1) as queue:
            async with queue._database.atransaction() as connection:
                await connection.execute("set session characteristics as transaction read only")
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                await queue.aenqueue("a", {})
            await queue.aenqueue("a", {})

    asyncio.run(leave())


def test_a_pool_that_somebody_waits_for_goes_on_trying_without_growing_pauses(url: str) -> None:
    """Left to itself it would wait for 1, 2, 4, 8 … seconds; made to give up early, it would try no more."""
    tried = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            with suppress(OSError):
                while True:
                    server.accept()[0].close()
                    tried.append(time.monotonic())

        threading.Thread(target=refuse, daemon=True).start()
        database = Database(make_conninfo(url, host="127.0.0.1", port=server.getsockname()[1]), "treadle")
        database.use(make_conninfo(url, host="127.0.0.1", port=server.getsockname()[1]))

        def wait() -> None:
            with suppress(Exception):
                database.run(job_queries.count_jobs())

        waiting = threading.Thread(target=wait)
        waiting.start()
        end = time.monotonic() + 25
        while len(tried) < 10 and time.monotonic() < end:
            time.sleep(0.05)
        database.close()
        waiting.join(5)
    assert len(tried) >= 10


def test_a_line_gets_to_the_second_server_though_the_first_is_silent(silent: socket.socket, url: str) -> None:
    async def run() -> None:
        connection = ReconnectingConnection(after(silent, url), "treadle", "test", timeout=1.5, connect_timeout=2)
        assert await connection.run(job_queries.count_jobs())
        await connection.close()

    asyncio.run(run())


def test_a_keeper_renews_a_short_lease_at_the_second_server(silent: socket.socket, url: str) -> None:
    async def run() -> None:
        keeper = Keeper(after(silent, url), "treadle", timedelta(seconds=5), 3)
        began = time.monotonic()
        assert await keeper.recover("nobody", "gone") == []
        assert time.monotonic() - began < 4.5, "the least that libpq waits is 2 seconds"
        await keeper.close()

    asyncio.run(run())


def test_a_program_gets_to_the_second_server_though_the_first_is_silent(silent: socket.socket, url: str) -> None:
    with JobQueue(make_conninfo(after(silent, url), connect_timeout=2)) as queue:
        queue.enqueue("a", {})


def test_an_error_names_all_servers_of_the_url() -> None:
    assert described("postgresql://u:secret@one:5432,two:5433/shop") == "one:5432 or two:5433/shop"
    assert described("postgresql://one,two/shop") == "one or two/shop"
    assert described("host=one,two port=5433 dbname=shop") == "one:5433 or two:5433/shop"
