"""Guards of a worker's lease: each of these goes red when its guard is removed."""

import asyncio
from datetime import timedelta
from typing import Any

import psutil
import pytest
from chaos.proxy import Proxy
from psycopg import Connection

from tests.conftest import Connect
from tests.waiting import until_blocked
from tests.workers import auntil, run
from treadle import Treadle, events
from treadle.db.line import DatabaseAway
from treadle.db.query import Query
from treadle.words.clock import now
from treadle.worker import Worker
from treadle.worker.board import Board
from treadle.worker.keeper import Keeper


def test_a_lease_counts_from_before_it_was_asked_for(url: str, connect: Connect) -> None:
    connection, holder = connect(), connect(autocommit=False)
    connection.execute("select register_worker('me', '1 minute', '{a}')")
    holder.execute("select from workers for update")

    async def body() -> None:
        keeper, board = Keeper(url, "treadle", timedelta(minutes=1), 3), Board.make(1)
        keeper.wards["me"] = board
        renewing = asyncio.create_task(keeper.renew())
        await asyncio.to_thread(until_blocked, connection)
        asked = now()
        holder.rollback()
        await auntil(lambda: board.renewed_at)
        assert board.renewed_at < asked
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await keeper.close()
        board.close()

    asyncio.run(body())


def test_a_renewal_that_fails_is_tried_again(
    url: str, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[DatabaseAway] = []

    async def body() -> None:
        keeper, board = Keeper(url, "treadle", timedelta(seconds=5), 3), Board.make(1)
        keeper.wards["me"] = board
        real = keeper._line.run

        async def watched(query: Query[Any]) -> Any:
            try:
                return await real(query)
            except DatabaseAway as error:
                failed.append(error)
                raise

        monkeypatch.setattr(keeper._line, "run", watched)
        connection.execute("alter function renew_workers rename to renew_workers_away")
        renewing = asyncio.create_task(keeper.renew())
        try:
            await auntil(lambda: failed)
        finally:
            connection.execute("alter function renew_workers_away rename to renew_workers")
        await auntil(lambda: board.renewed_at)
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await keeper.close()
        board.close()

    asyncio.run(body())


def test_a_keeper_that_dies_is_replaced(app: Treadle) -> None:
    fenced: list[events.Event] = []
    app.on(events.WorkerFenced)(fenced.append)

    @app.job
    async def hello() -> str:
        return "hello"

    async def body(worker: Worker) -> None:
        first = worker.keeper_pid
        psutil.Process(first).kill()
        killed = now()
        await auntil(lambda: worker._board.renewed_at > killed)
        assert worker.keeper_pid != first
        assert not fenced
        assert await (await hello.aenqueue()).aresult(30) == "hello"

    run(app, body, lease="20s", keeper_process=True)


def test_a_keeper_whose_connection_falls_silent_renews_the_lease_in_time(url: str) -> None:
    proxy = Proxy(url)
    app = Treadle(proxy.url)
    fenced: list[events.Event] = []
    app.on(events.WorkerFenced)(fenced.append)

    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        first = worker._board.renewed_at
        await auntil(lambda: worker._board.renewed_at > first)
        proxy.go_silent()
        silent = now()
        await auntil(lambda: worker._board.renewed_at > silent)
        assert not fenced

    try:
        run(app, body, lease="10s", listen=False, poll="60s", keeper_process=True)
    finally:
        proxy.close()
