"""The process that renews the lease of a worker, and gives back its jobs when the program ends."""

import asyncio
import os
import subprocess
import sys
import textwrap
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from chaos.proxy import Proxy
from psycopg import Connection

from tests.conftest import Connect
from tests.support.waiting import until_waiting_for_lock
from tests.support.workers import auntil, count, run, until
from treadle import Treadle, events
from treadle.db.query import Query
from treadle.db.reconnecting import DatabaseUnavailable
from treadle.words.clock import now
from treadle.worker.job_slots import JobSlots
from treadle.worker.keeper import Keeper
from treadle.worker.worker import Worker

pytestmark = pytest.mark.own_database


def test_a_lease_counts_from_before_its_renewal_was_sent(url: str, connect: Connect) -> None:
    connection, holder = connect(), connect(autocommit=False)
    connection.execute("select register_worker('me', '1 minute', '{a}')")
    holder.execute("select from workers for update")

    async def body() -> None:
        keeper, slots = Keeper(url, "treadle", timedelta(minutes=1), 3), JobSlots.create(1)
        keeper.add("me", slots)
        renewing = asyncio.create_task(keeper.renew())
        await asyncio.to_thread(until_waiting_for_lock, connection)
        asked = now()
        holder.rollback()
        await auntil(lambda: slots.renewed_at)
        assert slots.renewed_at < asked
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await keeper.close()
        slots.close()

    asyncio.run(body())


def test_a_worker_of_which_a_part_hangs_loses_its_lease(app: Treadle, url: str, connection: Connection[Any]) -> None:
    """Under a supervisor it ends before that, and is replaced."""

    @app.job
    async def hello() -> None: ...

    async def body(worker: Worker) -> None:
        worker._cannot_end()
        assert worker.running.overdue.is_set()
        worker._supervised = False
        worker._cannot_end()
        keeper, slots = Keeper(url, "treadle", timedelta(seconds=1), 3), [worker.slots, JobSlots.create(1)]
        before = worker.slots.renewed_at
        for name, each in zip((worker.worker_id, "other"), slots, strict=True):
            keeper.add(name, each)
        renewing = asyncio.create_task(keeper.renew())
        for _ in range(2):
            slots[1].renewed_at = 0.0
            await auntil(lambda: slots[1].renewed_at)
        assert worker.slots.renewed_at == before
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await keeper.close()
        slots[1].close()

    run(app, body)


def test_the_lease_of_a_worker_that_sleeps_is_renewed_once(url: str, connect: Connect) -> None:
    connection = connect()
    row = "select extract(epoch from lease)::int, asleep_at is not null, seen_at from workers"

    async def body() -> None:
        keeper, slots = Keeper(url, "treadle", timedelta(seconds=1), 3), JobSlots.create(1)
        slots.asleep = True
        keeper.add("me", slots)
        renewing = asyncio.create_task(keeper.renew())
        await auntil(lambda: connection.execute(row).fetchone())
        before = connection.execute(row).fetchone()
        assert before
        assert before[:2] == (7200, True)
        await asyncio.sleep(1)  # three renewals
        assert connection.execute(row).fetchone() == before
        slots.asleep = False
        await auntil(lambda: (connection.execute(row).fetchone() or ())[:2] == (1, False))
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await keeper.close()
        slots.close()

    asyncio.run(body())


def test_a_renewal_that_fails_is_tried_again(
    url: str, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[DatabaseUnavailable] = []

    async def body() -> None:
        keeper, slots = Keeper(url, "treadle", timedelta(seconds=5), 3), JobSlots.create(1)
        keeper.add("me", slots)
        real = keeper.connection.run

        async def watched(query: Query[Any]) -> Any:
            try:
                return await real(query)
            except DatabaseUnavailable as error:
                failed.append(error)
                raise

        monkeypatch.setattr(keeper.connection, "run", watched)
        connection.execute("alter function renew_workers rename to renew_workers_away")
        renewing = asyncio.create_task(keeper.renew())
        try:
            await auntil(lambda: failed)
        finally:
            connection.execute("alter function renew_workers_away rename to renew_workers")
        await auntil(lambda: slots.renewed_at)
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await keeper.close()
        slots.close()

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
        await auntil(lambda: worker.slots.renewed_at > killed)
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
        first = worker.slots.renewed_at
        await auntil(lambda: worker.slots.renewed_at > first)
        proxy.go_silent()
        silent = now()
        await auntil(lambda: worker.slots.renewed_at > silent)
        assert not fenced

    try:
        run(app, body, lease="6s", listen=False, poll="60s", keeper_process=True)
    finally:
        proxy.close()


PROGRAM = """
    import asyncio, os, sys, time
    from treadle import Treadle

    app = Treadle()

    @app.job
    async def long() -> None:
        await asyncio.sleep(600)

    async def main() -> None:
        async with app.worker():
            await long.aenqueue()
            if os.fork() == 0:  # a helper that inherits everything, and stays
                time.sleep(600)
                os._exit(0)
            print("working", flush=True)
            await asyncio.sleep(600)

    asyncio.run(main())
"""


def test_the_lease_of_a_killed_program_ends_although_a_forked_process_lives(
    url: str, connection: Connection[Any]
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TREADLE_DATABASE_URL": url},
    ) as program:
        assert program.stdout
        assert program.stdout.readline() == "working\n"
        until(lambda: count(connection, "status = 'running'") == 1)
        helper = [each for each in psutil.Process(program.pid).children() if "keeper" not in " ".join(each.cmdline())]
        try:
            program.kill()
            until(lambda: count(connection, "status = 'pending' and crashes = 1 and attempts = 0") == 1)
        finally:
            for each in helper:
                each.kill()


def test_a_job_in_a_child_of_a_killed_program_has_not_crashed(
    url: str, connection: Connection[Any], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import asyncio, pathlib, time
            from treadle import Treadle

            app = Treadle()

            @app.job(process=True)
            def long() -> None:
                pathlib.Path(__file__).with_name("began").touch()
                time.sleep(600)

            @app.job
            async def beside() -> None:
                await asyncio.sleep(600)

            async def main() -> None:
                async with app.worker(lease="5s"):
                    await asyncio.sleep(600)

            if __name__ == "__main__":
                long.enqueue()
                beside.enqueue()
                asyncio.run(main())
            """
        )
    )
    environment = os.environ | {"TREADLE_DATABASE_URL": url}
    with subprocess.Popen([sys.executable, str(program)], env=environment) as running:
        until(lambda: count(connection, "status = 'running'") == 2)
        until((tmp_path / "began").exists)  # in the child itself
        running.kill()
        until(lambda: count(connection, "status = 'pending'") == 2)
    crashes = dict(connection.execute("select job_type, crashes from jobs").fetchall())
    assert crashes == {"long": 0, "beside": 1}
