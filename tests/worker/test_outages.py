"""A database that becomes unavailable and returns: restarts, killed connections, lost replies, silent connections."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from chaos.proxy import Proxy
from chaos.servers import Server
from psycopg import Connection

from tests.support.workers import QUICK, Ledger, auntil, completed, count, run, until, until_completed, worker_process
from treadle import Backoff, Job, JobFailed, JobQueue, Retries, Status, Treadle, events, migrate
from treadle.db import reconnecting
from treadle.db.embedded import leave
from treadle.db.query import Query
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection
from treadle.words.clock import now
from treadle.worker.worker import Worker

pytestmark = pytest.mark.own_database


@pytest.fixture
def server(server_folder: Path) -> Iterator[Server]:
    yield Server(server_folder)
    leave(server_folder)


def naps(url: str, number: int, seconds: float) -> None:
    with Treadle(url).queue as queue:
        queue.enqueue_many("nap", ({"seconds": seconds} for _ in range(number)), retry=Retries(0))


@pytest.mark.long
def test_restarts_of_the_server_are_survived(server: Server, tmp_path: Path, ledger: Ledger) -> None:
    naps(server.url, 700, 0.05)
    with worker_process(server.url, tmp_path, "--concurrency", "20") as worker:
        for number in (100, 300):
            with server.connect() as connection:
                until_completed(connection, number)
            server.crash()
            server.come_back()
            with server.connect() as connection:
                back = time.monotonic()
                until_completed(connection, count(connection, "status = 'completed'") + 50)
                assert time.monotonic() - back < 20
        with server.connect() as connection:
            until_completed(connection, 700)
            ledger.check(completed(connection))
            assert count(connection, "attempts <> 1 or crashes <> 0") == 0
        assert worker.log.read_text().count("worker started") == 1
        assert "database is back" in worker.log.read_text()


def test_a_worker_that_cannot_renew_its_lease_stops_its_handlers(
    server: Server, tmp_path: Path, ledger: Ledger
) -> None:
    with Treadle(server.url).queue as queue:
        for kind in ("nap", "nap_and_check", "nap_on_thread"):
            queue.enqueue(kind, {"seconds": 600}, retry=Retries(0))
        with worker_process(server.url, tmp_path, *QUICK) as worker:
            until(lambda: len(ledger.starts()) == 3)
            with server.connect() as connection:
                until(lambda: count(connection, "status = 'running'") == 3)
            server.crash()
            # Two of them stop when they are asked to. The third does not, so its process is killed.
            until(lambda: "lease not renewed: handlers were stopped" in worker.log.read_text())
            until(lambda: "was killed because its lease could not be renewed" in worker.log.read_text())
            server.come_back()
            worker.started(2)
            until(lambda: len(ledger.starts()) >= 6)
            with server.connect() as connection:
                assert count(connection, "attempts = 1 and crashes = 0") == 3, "the outage was not their fault"


def test_killed_connections_are_survived(url: str, tmp_path: Path, connection: Connection[Any], ledger: Ledger) -> None:
    naps(url, 600, 0.03)
    with worker_process(url, tmp_path, "--concurrency", "20", "--processes", "2"):
        for number in range(60, 480, 60):
            until_completed(connection, number)
            connection.execute(
                """select pg_terminate_backend(pid) from pg_stat_activity
                where datname = current_database() and application_name like 'treadle %'"""
            )
        until_completed(connection, 600)
    ledger.check(completed(connection))
    assert count(connection, "attempts <> 1 or crashes <> 0") == 0


def lose_replies(monkeypatch: pytest.MonkeyPatch, statement: str, times: int) -> list[str]:
    """The statement is carried out and its reply never arrives."""
    real = ReconnectingConnection.run
    lost: list[str] = []

    async def run(connection: ReconnectingConnection, query: Query[Any]) -> Any:
        reply = await real(connection, query)
        # A claim that found jobs; or an outcome, whose reply lists those that were refused.
        if statement in query.text and len(lost) < times and (reply or statement == "complete_job"):
            lost.append(statement)
            await connection.disconnect()
            raise DatabaseUnavailable("the connection was cut before the reply")
        return reply

    monkeypatch.setattr(ReconnectingConnection, "run", run)
    return lost


def test_a_claim_whose_reply_is_lost_is_found(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, not only by the check every 30 s."""
    monkeypatch.setattr("treadle.worker.worker.LOST_REPLIES_SECONDS", 600)
    lost = lose_replies(monkeypatch, "claim_work", 2)

    @app.job
    async def hello(n: int) -> int:
        return n

    async def body(worker: Worker) -> None:
        handles = await hello.aenqueue_many({"n": n} for n in range(30))
        assert [await handle.aresult(30) for handle in handles] == list(range(30))
        assert {(await handle.ajob()).attempts for handle in handles} == {1}

    run(app, body, concurrency=10)
    assert len(lost) == 2


@pytest.mark.parametrize("statement", ["complete_job", "settle_jobs"])
def test_an_outcome_whose_reply_is_lost_is_written_once(
    app: Treadle, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    lost = lose_replies(monkeypatch, statement, 2)
    told: list[events.Event] = []
    app.on(events.JobEvent)(told.append)

    @app.job(retry=Retries(0))
    async def hello(fail: bool) -> None:
        if fail:
            raise ValueError("asked to")

    async def body(worker: Worker) -> None:
        handle = await hello.aenqueue(fail=statement == "settle_jobs")
        await auntil(lambda: len(lost) == 1)
        with suppress(Exception):
            await handle.aresult(30)
        assert len(await handle.aerrors()) == (statement == "settle_jobs")
        assert (await handle.ajob()).attempts == 1

    run(app, body)
    assert not any(isinstance(event, events.LeaseWasLost) for event in told)


@pytest.mark.parametrize("statement", ["complete_job", "settle_jobs"])
def test_an_outcome_waits_while_the_database_is_unavailable(
    app: Treadle, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    real = ReconnectingConnection.run
    tries: list[str] = []
    runs: list[str] = []

    async def unavailable(connection: ReconnectingConnection, query: Query[Any]) -> Any:
        if statement in query.text and len(tries) < 2:
            tries.append(statement)
            raise DatabaseUnavailable("the server does not answer")
        return await real(connection, query)

    monkeypatch.setattr(ReconnectingConnection, "run", unavailable)

    @app.job(retry=Retries(0))
    async def hello(fail: bool) -> None:
        runs.append(statement)
        if fail:
            raise ValueError("asked to")

    async def body(worker: Worker) -> None:
        handle = await hello.aenqueue(fail=statement == "settle_jobs")
        with suppress(JobFailed):
            await handle.aresult(60)

    run(app, body)
    assert (len(tries), len(runs)) == (2, 1), "it was given up, and the job run again"


def test_connections_that_fall_silent_are_replaced(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconnecting, "STATEMENT_SECONDS", 1.0)
    proxy = Proxy(url)
    app = Treadle(proxy.url)
    quiet = Treadle(url)

    @app.job
    async def hello(job: Job) -> int:
        return job.attempt

    async def body(worker: Worker) -> None:
        assert await (await hello.aenqueue()).aresult(30) == 1
        await auntil(lambda: worker.receives_notifications)
        proxy.go_silent()
        for _ in range(3):
            job_id = await quiet.queue.aenqueue("hello", {})
            assert await quiet.handle(job_id).aresult(30) == 1
        await quiet.aclose()

    try:
        run(app, body, lease="10s", poll="0.5s")
    finally:
        proxy.close()


@pytest.mark.parametrize(
    "function", ["complete_jobs", "settle_jobs", "claim_work", "next_due", "renew_workers", "report_jobs"]
)
def test_a_function_that_is_missing_for_a_while_costs_no_attempt(
    app: Treadle, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """As during a migration."""
    real, refused = ReconnectingConnection.run, 0

    async def counted(connection: ReconnectingConnection, query: Query[Any]) -> Any:
        nonlocal refused
        try:
            return await real(connection, query)
        except DatabaseUnavailable:
            refused += f"{function}(" in query.text
            raise

    monkeypatch.setattr(ReconnectingConnection, "run", counted)

    go = asyncio.Event()

    @app.job(retry=Retries(2, backoff=Backoff(first=0)))
    async def hello(job: Job, n: int) -> int:
        if n % 3 == 0 and job.attempt == 1:
            raise ValueError("the first time")
        if function == "report_jobs" and n % 2:
            await go.wait()  # until it was to be reported as running, twice
        return n

    async def body(worker: Worker) -> None:
        def missed() -> bool:
            if function == "renew_workers":  # another process does that, three times in the lease of 3 seconds
                return now() - worker.slots.renewed_at > 1.5
            return refused > 1

        handles = [await hello.aenqueue(n=n) for n in range(6)]
        connection.execute(f"alter function {function} rename to {function}_away")
        try:
            handles += [await hello.aenqueue(n=n) for n in range(6, 12)]
            await auntil(missed)
        finally:
            connection.execute(f"alter function {function}_away rename to {function}")
            go.set()
        assert [await handle.aresult(30) for handle in handles] == list(range(12))

    run(app, body, lease="3s", keeper_process=function == "renew_workers")


@pytest.mark.long
def test_a_worker_ends_while_the_database_is_unavailable(tmp_path: Path, empty_url: str) -> None:
    migrate(empty_url)
    with worker_process(empty_url, tmp_path, "--grace", "0s", "--lease", "3s") as worker:
        with JobQueue(empty_url) as queue:
            queue.enqueue("nap_on_thread", {"seconds": 60})
            until(lambda: queue.counts()[Status.RUNNING] == 1)
        name = psycopg.conninfo.conninfo_to_dict(empty_url)["dbname"]
        with psycopg.connect(psycopg.conninfo.make_conninfo(empty_url, dbname="postgres"), autocommit=True) as server:
            server.execute(f"alter database {name} allow_connections false".encode())
            server.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
            worker.terminate()
            try:
                assert worker.ended(25) == 0
            finally:
                server.execute(f"alter database {name} allow_connections true".encode())
