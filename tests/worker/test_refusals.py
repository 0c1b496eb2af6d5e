"""A server that answers and cannot write: every surface says so, without a write, and says why."""

import asyncio
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from tests.conftest import Why
from tests.support.apps import claim_and_start
from tests.support.commands import output_of
from tests.support.dashboards import VIEWER, Site
from tests.support.disks import SmallDisk, small_disk
from tests.support.doctor import findings, get_finding
from tests.support.embedded_server import QUICK
from tests.support.roles import Roles, granted_roles
from tests.support.screens import terminal
from tests.support.why import register_worker
from tests.support.workers import Ledger, auntil, completed, one, run, until, worker_process
from tests.worker.test_health import port_of, probe
from treadle import JobQueue, Status, Treadle
from treadle.db.embedded import embedded_url, leave
from treadle.db.queries import refusals
from treadle.db.query import Query
from treadle.db.reconnecting import ReconnectingConnection, WriteRefused
from treadle.doctor import Severity
from treadle.doctor.examine import afind_signs
from treadle.operations.metrics import metrics
from treadle.operations.verdict import ALL_WELL, VerdictReader
from treadle.words.refusal import SECONDS, Refusal
from treadle.worker.worker import Worker

FULL = "The server cannot write: its disk is full."
UPDATE: Query[None] = Query("update treadle.jobs set priority = 1", {}, lambda _: None)
NAME: Query[str] = Query("select pg_catalog.current_setting('application_name')", {}, lambda rows: str(rows[0][0]))


@contextmanager
def refused(connection: Connection[Any], code: str) -> Iterator[None]:
    """Whatever updates a job gets this error of PostgreSQL."""
    connection.execute(
        f"""create function public.refuse() returns trigger language plpgsql as
        $$ begin raise exception 'could not extend the file' using errcode = '{code}'; end $$"""
    )
    connection.execute("create trigger refuse before update on jobs for each row execute function public.refuse()")
    try:
        yield
    finally:
        connection.execute("drop function public.refuse cascade")


@contextmanager
def refused_session(url: str, ago: float = 0.0) -> Iterator[None]:
    """A session whose write was refused some seconds ago."""
    with psycopg.connect(url, autocommit=True) as session:
        at = round(one(session, "select extract(epoch from clock_timestamp())")) - round(ago)
        name = f"treadle cannot write: disk_full {at} treadle w1"
        session.execute("select set_config('application_name', %s, false)", [name])
        yield


@pytest.mark.parametrize("refusal", Refusal)
def test_a_session_says_in_its_name_that_a_write_was_refused_until_writes_succeed(
    url: str, connection: Connection[Any], queue: JobQueue, monkeypatch: pytest.MonkeyPatch, refusal: Refusal
) -> None:
    queue.enqueue("mail")

    async def body() -> None:
        session = ReconnectingConnection(url, "treadle", "treadle w1")
        with refused(connection, refusal.value):
            with pytest.raises(WriteRefused, match=re.escape(refusal.sentence)) as raised:
                await session.run(UPDATE)
            assert raised.value.refusal is refusal
            name = await session.run(NAME)
            assert name.startswith(f"treadle cannot write: {refusal.value} ")
            assert name.endswith(" treadle w1")
            assert await session.run(refusals.find()) is refusal
        monkeypatch.setattr("treadle.db.reconnecting.REFUSAL_SECONDS", 0.0)
        await session.run(UPDATE)
        assert await session.run(NAME) == "treadle w1"
        assert await session.run(refusals.find()) is None
        await session.close()

    asyncio.run(body())


def test_what_was_refused_some_time_ago_is_over(url: str, app: Treadle) -> None:
    with refused_session(url):
        assert app.database.read(refusals.find()) is Refusal.DISK_FULL
    with refused_session(url, ago=SECONDS + 1):
        assert app.database.read(refusals.find()) is None


@pytest.fixture
def roles(url: str) -> Iterator[Roles]:
    with granted_roles(url) as roles:
        yield roles


def test_a_viewer_sees_it_and_only_roles_that_change_jobs_can_say_it(roles: Roles, queue: JobQueue) -> None:
    job_id = queue.enqueue("mail")
    viewer = Treadle(roles.url_of("viewer"))
    for group in ("enqueue", "viewer", "operator"):
        with refused_session(roles.url_of(group)):
            assert viewer.database.read(refusals.find()) is None
    with refused_session(roles.url_of("worker")):
        assert [each.finding for each in VerdictReader(viewer.database).read()] == ["writable"]
        assert viewer.handle(job_id).why().name == "server_cannot_write"
        assert findings(roles.url_of("viewer"))["writable"].title == FULL
    viewer.close()


def test_the_doctor_reports_it_instead_of_what_follows_from_it(
    url: str, queue: JobQueue, connection: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.doctor.examine.LOOK_AGAIN_SECONDS", 0.05)
    register_worker(connection)
    queue.enqueue("mail")
    connection.execute("update jobs set run_at = run_at - interval '20 minutes'")
    connection.execute("update workers set started_at = started_at - interval '1 hour'")
    assert findings(url)["stalled_workers"].level is not Severity.OK
    with refused_session(url):
        found = findings(url)
    assert found["writable"].level is Severity.CRITICAL
    assert (found["writable"].title, "df -h" in found["writable"].remedy) == (FULL, True)
    assert not {"stalled_workers", "unclaimed_jobs", "ticks"} & found.keys()


def test_it_calls_for_a_new_examination(url: str, app: Treadle) -> None:
    async def signs() -> frozenset[object]:
        try:
            return await afind_signs(app.database)
        finally:
            await app.aclose()

    before = asyncio.run(signs())
    with refused_session(url):
        assert asyncio.run(signs()) != before


def test_the_pages_the_commands_and_the_metrics_say_it(
    url: str, app: Treadle, queue: JobQueue, connection: Connection[Any], site: Site, why: Why
) -> None:
    register_worker(connection, "{mail,films}")
    running = claim_and_start(queue).id
    waiting = queue.enqueue("mail")
    assert VerdictReader(app.database).read() == [ALL_WELL]
    assert (why(waiting).name, why(running).name) == ("ready", "running")
    assert writable(app) == 1
    with refused_session(url):
        (verdict,) = VerdictReader(app.database).read()
        assert (verdict.severity, verdict.sentence, verdict.finding) == (Severity.CRITICAL, FULL, "writable")
        assert [each.name for each in (why(waiting), why(running))] == ["server_cannot_write"] * 2
        assert [each.name for each in why(running).also] == ["running"]
        assert FULL in why(waiting).sentence
        assert writable(app) == 0
        assert output_of("stats", "--database-url", url).startswith(FULL)
        visitor = site.program(VIEWER)
        assert FULL in visitor.get("/").text
        assert FULL in visitor.get("/health").text
        assert visitor.get("/api/overview", accept="application/json").json()["refusal"] == "disk_full"
        with terminal("top", "--database-url", url) as screen:
            screen.wait_for(FULL)


def writable(app: Treadle) -> float:
    (found,) = (each for each in metrics(app.database) if each.name == "treadle_writable")
    return found.samples[0].value


def test_a_worker_says_once_that_writes_are_refused_and_once_that_they_succeed(
    app: Treadle, connection: Connection[Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other statements succeed meanwhile: that is not the end of it."""

    @app.job
    async def mail() -> None:
        pass

    def lines(text: str) -> list[str]:
        return [each.getMessage() for each in caplog.records if each.getMessage().startswith(text)]

    async def body(worker: Worker) -> None:
        with refused(connection, "disk_full"):
            job = await mail.aenqueue()
            await auntil(lambda: lines("database unavailable"))
            await worker.connections.claims.run(UPDATE_NOTHING)
            worker.unavailable(None)
            assert worker.slots.refusal is Refusal.DISK_FULL
            assert not lines("database is back")
        monkeypatch.setattr("treadle.worker.job_slots.REFUSAL_SECONDS", 0.0)
        await job.aresult(30)
        await auntil(lambda: lines("database is back"))
        (lost,) = lines("database unavailable")
        assert FULL in lost
        assert "could not extend the file" in lost

    run(app, body)


UPDATE_NOTHING: Query[None] = Query("update treadle.jobs set priority = 1 where false", {}, lambda _: None)


# A real disk


@pytest.fixture
def disk(server_folder: Path) -> Iterator[SmallDisk]:
    try:
        with small_disk(embedded_url(server_folder, QUICK)) as disk:
            yield disk
    finally:
        leave(server_folder)


def test_nothing_is_lost_on_a_full_disk_and_a_worker_is_not_ready_meanwhile(
    disk: SmallDisk, tmp_path: Path, ledger: Ledger
) -> None:
    queue = JobQueue(disk.url)
    with (
        psycopg.connect(disk.url, autocommit=True, options="-c search_path=treadle,public") as connection,
        worker_process(disk.url, tmp_path, "--health-port", "0", "--concurrency", "4") as worker,
    ):
        port = port_of(worker)
        assert probe(port, "/ready") == (200, "ready\n")
        # Long rows: there is no room on their pages for other versions of them. They are due when the disk is full.
        texts = [{"text": secrets.token_hex(700)} for _ in range(100)]
        ids = queue.enqueue_many("keep", texts, delay="2s")
        disk.fill()
        until(lambda: probe(port, "/ready") == (503, f"not ready: {FULL}\n"), worker.log.read_text)
        app = Treadle(disk.url)
        (verdict,) = VerdictReader(app.database).read()
        assert (verdict.sentence, get_finding(disk.url, "writable").title) == (FULL, FULL)
        left = next(each for each in ids if app.handle(each).status() is Status.PENDING)
        assert app.handle(left).why().name == "server_cannot_write"
        app.close()
        assert FULL in worker.log.read_text()
        disk.make_room()
        until(lambda: len(completed(connection)) == len(ids), worker.log.read_text)
        ledger.check(completed(connection))
        until(lambda: probe(port, "/ready") == (200, "ready\n"))
        until(lambda: "database is back" in worker.log.read_text())
    queue.close()
