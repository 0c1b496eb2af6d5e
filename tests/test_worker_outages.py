"""A database that goes away and comes back: restarts, killed connections, answers that are lost, silence."""

import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from chaos.proxy import Proxy
from chaos.servers import Server
from psycopg import Connection

from tests.workers import Ledger, auntil, completed, count, run, until, until_completed, working
from treadle import Job, JobFailed, Treadle, events
from treadle.app.watch import LOOK_SECONDS
from treadle.db import line as lines
from treadle.db.embedded import leave
from treadle.db.line import DatabaseAway, Line
from treadle.db.query import Query
from treadle.worker import Worker


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    yield Server(folder)
    leave(folder)


def naps(url: str, number: int, seconds: float) -> None:
    with Treadle(url).queue as queue:
        queue.enqueue_many("nap", ({"seconds": seconds} for _ in range(number)), max_attempts=1)


def test_restarts_of_the_server_are_survived(server: Server, tmp_path: Path, ledger: Ledger) -> None:
    naps(server.url, 1500, 0.05)
    with working(server.url, tmp_path, "--concurrency", "20") as worker:
        for number in (300, 750):
            with server.connect() as connection:
                until_completed(connection, number)
            server.crash()
            server.come_back()
            with server.connect() as connection:
                back = time.monotonic()
                until_completed(connection, count(connection, "status = 'completed'") + 50)
                assert time.monotonic() - back < 20
        with server.connect() as connection:
            until_completed(connection, 1500)
            ledger.check(completed(connection))
            assert count(connection, "attempts <> 1 or crashes <> 0") == 0
        assert worker.log.read_text().count("worker started") == 1
        assert "database is back" in worker.log.read_text()


def test_a_worker_that_cannot_renew_its_lease_stops_its_handlers(
    server: Server, tmp_path: Path, ledger: Ledger
) -> None:
    with Treadle(server.url).queue as queue:
        for kind in ("nap", "attentive", "doze"):
            queue.enqueue(kind, {"seconds": 600}, max_attempts=1)
        with working(server.url, tmp_path, "--lease", "4s") as worker:
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
    naps(url, 1000, 0.03)
    with working(url, tmp_path, "--concurrency", "20", "--processes", "2"):
        for number in range(100, 900, 100):
            until_completed(connection, number)
            connection.execute(
                """select pg_terminate_backend(pid) from pg_stat_activity
                where datname = current_database() and application_name like 'treadle %'"""
            )
        until_completed(connection, 1000)
    ledger.check(completed(connection))
    assert count(connection, "attempts <> 1 or crashes <> 0") == 0


def lose_answers(monkeypatch: pytest.MonkeyPatch, statement: str, times: int) -> list[str]:
    """The statement is carried out, and its answer never arrives."""
    real = Line.run
    lost: list[str] = []

    async def run(line: Line, query: Query[Any]) -> Any:
        answer = await real(line, query)
        # A claim that brought something; an end, whose answer is which were refused.
        if statement.encode() in query.text and len(lost) < times and (answer or statement == "complete_jobs"):
            lost.append(statement)
            await line.hang_up()
            raise DatabaseAway("the connection was cut before the answer")
        return answer

    monkeypatch.setattr(Line, "run", run)
    return lost


def test_a_claim_whose_answer_is_lost_is_taken_up(app: Treadle, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and not only by the look of every half a minute."""
    monkeypatch.setattr("treadle.worker.worker.ADOPT_SECONDS", 600)
    lost = lose_answers(monkeypatch, "claim_jobs", 2)

    @app.job
    async def hello(n: int) -> int:
        return n

    async def body(worker: Worker) -> None:
        handles = await hello.aenqueue_many({"n": n} for n in range(30))
        assert [await handle.aresult(30) for handle in handles] == list(range(30))
        assert {(await handle.ajob()).attempts for handle in handles} == {1}

    run(app, body, concurrency=10)
    assert len(lost) == 2


@pytest.mark.parametrize("statement", ["complete_jobs", "settle_jobs"])
def test_an_outcome_whose_answer_is_lost_is_written_once(
    app: Treadle, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    lost = lose_answers(monkeypatch, statement, 2)
    told: list[events.Event] = []
    app.on(events.JobEvent)(told.append)

    @app.job(max_attempts=1)
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


@pytest.mark.parametrize("statement", ["complete_jobs", "settle_jobs"])
def test_an_outcome_waits_while_the_database_is_away(
    app: Treadle, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    real = Line.run
    tries: list[str] = []
    runs: list[str] = []

    async def away(line: Line, query: Query[Any]) -> Any:
        if statement.encode() in query.text and len(tries) < 2:
            tries.append(statement)
            raise DatabaseAway("the server does not answer")
        return await real(line, query)

    monkeypatch.setattr(Line, "run", away)

    @app.job(max_attempts=1)
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
    monkeypatch.setattr(lines.Line.__init__, "__defaults__", (1.0, 5))
    proxy = Proxy(url)
    app = Treadle(proxy.url)
    quiet = Treadle(url)

    @app.job
    async def hello(job: Job) -> int:
        return job.attempt

    async def body(worker: Worker) -> None:
        assert await (await hello.aenqueue()).aresult(30) == 1
        await auntil(lambda: worker.hears)
        proxy.go_silent()
        for _ in range(5):
            job_id = await quiet.queue.aenqueue("hello", {})
            assert await quiet.handle(job_id).aresult(30) == 1
        await quiet.aclose()

    try:
        run(app, body, lease="30s")
    finally:
        proxy.close()


def test_a_watch_on_a_silent_connection_keeps_nobody(url: str) -> None:
    proxy = Proxy(url)
    app = Treadle(proxy.url)
    try:
        job_id = app.queue.enqueue("a")
        woken = app.watch.end(job_id)
        until(lambda: _watches_in("_listen"))
        proxy.go_silent()
        until(lambda: _watches_in("_look"))
        app.watch.forget(job_id, woken)
        app.watch.close()  # or the test does not end
    finally:
        proxy.close()
        app.close()


def _watches_in(function: str) -> bool:
    """For longer than it does between two looks."""
    watching = [each.ident for each in threading.enumerate() if each.name == "treadle-watch"]

    def now() -> bool:
        frame = sys._current_frames().get(watching[-1] or 0)
        return frame is not None and function in [each.name for each in traceback.extract_stack(frame)]

    began = time.monotonic()
    while time.monotonic() - began < 2 * LOOK_SECONDS:
        if not now():
            return False
        time.sleep(0.01)
    return True
