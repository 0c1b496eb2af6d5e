"""Connections follow a database that is restarted or that moves to another server."""

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
from treadle import Connections, JobQueue, Treadle
from treadle.db.database import Database
from treadle.db.queries import jobs as job_queries
from treadle.db.reconnecting import ReconnectingConnection
from treadle.db.url import described
from treadle.worker.keeper import Keeper

pytestmark = pytest.mark.fresh_database

TERMINATE = """select pg_terminate_backend(pid, 10000) from pg_stat_activity
    where datname = current_database() and application_name = 'treadle'"""


@pytest.fixture
def hanging_server() -> Iterator[socket.socket]:
    """A server whose machine hangs: it accepts connections and never replies."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def url_with_first_server(first: socket.socket, url: str) -> str:
    """A URL of two servers: the given one first, then the real one."""
    host, port = conninfo_to_dict(url)["host"], conninfo_to_dict(url).get("port", 5432)
    return make_conninfo(url, host=f"127.0.0.1,{host}", port=f"{first.getsockname()[1]},{port}")


def parameters(app: Treadle) -> dict[str, str]:
    with app.database.transaction() as connection:
        return connection.info.get_parameters()


def test_a_pooled_connection_notices_within_seconds_that_its_server_is_gone(app: Treadle) -> None:
    found = parameters(app)
    assert (found["tcp_user_timeout"], found["keepalives_idle"], found["connect_timeout"]) == ("10000", "5", "5")


def test_timeouts_in_the_url_take_precedence(url: str) -> None:
    app = Treadle(make_conninfo(url, tcp_user_timeout=3000, connect_timeout=7))
    found = parameters(app)
    app.close()
    assert (found["tcp_user_timeout"], found["connect_timeout"]) == ("3000", "7")


def open_connections(app: Treadle, count: int) -> None:
    """Make the pool open this many connections, which are idle afterwards."""
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(app.database.transaction())


def test_terminated_idle_connections_are_replaced_before_a_caller_gets_one(app: Treadle, connect: Connect) -> None:
    open_connections(app, 5)
    connect().execute(TERMINATE)
    began = time.monotonic()
    for n in range(5):
        app.queue.enqueue("a", {"n": n})
    # Replacing them one by one, with a pause after each, would take seven seconds.
    assert time.monotonic() - began < 6.5


def test_terminated_idle_connections_of_an_async_pool_are_replaced(url: str, connect: Connect) -> None:
    async def cut() -> None:
        async with JobQueue(url) as queue:
            async with queue._database.atransaction(), queue._database.atransaction():
                pass
            await asyncio.to_thread(connect().execute, TERMINATE)
            await queue.aenqueue("a", {})

    asyncio.run(cut())


def refuse_writes(connection: Connection[Any]) -> None:
    connection.execute("set session characteristics as transaction read only")


def test_a_pool_reconnects_when_its_server_has_become_read_only(url: str) -> None:
    with JobQueue(url, connections=Connections(pool_size=3)) as queue:
        with ExitStack() as stack:
            for _ in range(3):
                refuse_writes(stack.enter_context(queue._database.origin.taken()))
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            queue.enqueue("a", {})
        for n in range(5):
            queue.enqueue("a", {"n": n})


def test_an_async_pool_reconnects_when_its_server_has_become_read_only(url: str) -> None:
    async def leave() -> None:
        async with JobQueue(url, connections=Connections(pool_size=1)) as queue:
            async with queue._database.origin.ataken() as connection:
                await connection.execute("set session characteristics as transaction read only")
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                await queue.aenqueue("a", {})
            await queue.aenqueue("a", {})

    asyncio.run(leave())


def test_a_pool_with_a_waiting_caller_keeps_trying_without_growing_pauses(url: str) -> None:
    """By default the pool would wait for 1, 2, 4, 8 … seconds, or stop trying if configured to give up early."""
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


def test_a_reconnecting_connection_reaches_the_second_server_if_the_first_hangs(
    hanging_server: socket.socket, url: str
) -> None:
    async def run() -> None:
        connection = ReconnectingConnection(
            url_with_first_server(hanging_server, url), "treadle", "test", timeout=1.5, connect_timeout=2
        )
        assert await connection.run(job_queries.count_jobs())
        await connection.close()

    asyncio.run(run())


def test_a_keeper_renews_a_short_lease_at_the_second_server(hanging_server: socket.socket, url: str) -> None:
    async def run() -> None:
        keeper = Keeper(url_with_first_server(hanging_server, url), "treadle", timedelta(seconds=20), 3)
        began = time.monotonic()
        assert await keeper.recover("nobody", "gone") == []
        assert time.monotonic() - began < 18, "libpq waits for at least 2 seconds"
        await keeper.close()

    asyncio.run(run())


@pytest.mark.long
def test_a_program_reaches_the_second_server_if_the_first_hangs(hanging_server: socket.socket, url: str) -> None:
    with JobQueue(make_conninfo(url_with_first_server(hanging_server, url), connect_timeout=2)) as queue:
        queue.enqueue("a", {})


def test_an_error_names_all_servers_of_the_url() -> None:
    assert described("postgresql://u:secret@one:5432,two:5433/shop") == "one:5432 or two:5433/shop"
    assert described("postgresql://one,two/shop") == "one or two/shop"
    assert described("host=one,two port=5433 dbname=shop") == "one:5433 or two:5433/shop"
