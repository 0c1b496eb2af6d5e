"""Behind PgBouncer in transaction mode, which delivers no notifications and shares its sessions."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import psycopg
import pytest
from chaos.servers import bouncer
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from tests.support.workers import auntil, run
from treadle import Connections, InvalidArgument, JobQueue, Treadle
from treadle.db.database import Database
from treadle.db.examination import receives_notifications
from treadle.words.errors import DatabaseUnreachable
from treadle.worker import notifications
from treadle.worker.worker import Worker

pytestmark = [
    pytest.mark.own_database,
    pytest.mark.skipif(
        which("pgbouncer") is None, reason="pgbouncer is not installed (Debian: apt-get install pgbouncer)"
    ),
]


@pytest.fixture
def pooled_url(url: str, project_folder: Path) -> Iterator[str]:
    with bouncer(url, project_folder, "transaction") as pooled_url:
        yield pooled_url


def add_job(app: Treadle) -> None:
    @app.job
    async def hello() -> str:
        return "hello"


def test_with_a_direct_url_notifications_arrive(url: str, pooled_url: str) -> None:
    app = Treadle(pooled_url, connections=Connections(listen_url=url))
    add_job(app)

    async def body(worker: Worker) -> None:
        await auntil(lambda: worker.receives_notifications)
        handle = await app.function("hello").aenqueue()
        assert await handle.aresult(30) == "hello"

    # Without notifications it would not look for jobs within the time limit.
    run(app, body, poll="60s")


def test_the_direct_url_may_be_in_the_environment(url: str, pooled_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not receives_notifications(Database(pooled_url, "treadle"), 0.3)
    monkeypatch.setenv("TREADLE_LISTEN_URL", url)
    assert receives_notifications(Database(pooled_url, "treadle"))


def test_an_invalid_url_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="the database URL is invalid"):
        Treadle("postgresql://localhost", connections=Connections(listen_url="localhost:5432"))


def test_without_notifications_jobs_run_and_the_log_says_so(
    pooled_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notifications, "ARRIVE_SECONDS", 0.1)
    monkeypatch.setattr(notifications, "RECONNECT_SECONDS", 0.1)
    app = Treadle(pooled_url)
    add_job(app)

    async def body(worker: Worker) -> None:
        handle = await app.function("hello").aenqueue()
        assert await handle.aresult(30) == "hello"
        await auntil(lambda: "set TREADLE_LISTEN_URL to a direct URL" in caplog.text)
        # Once, however often a probe is missed.
        probes = worker.notifications._missed
        await auntil(lambda: worker.notifications._missed > probes + 2)

    with caplog.at_level(logging.WARNING, "treadle"):
        run(app, body)
    assert caplog.text.count("notifications do not arrive") == 1


def test_an_isolation_level_that_the_pooler_does_not_let_us_change_is_explained(url: str, project_folder: Path) -> None:
    database = str(conninfo_to_dict(url)["dbname"])
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("alter database {} set default_transaction_isolation = serializable").format(
                sql.Identifier(database)
            )
        )
    with bouncer(url, project_folder, "transaction") as pooled_url:
        began = time.monotonic()
        with pytest.raises(DatabaseUnreachable, match="alter role postgres set default_transaction_isolation"):
            JobQueue(pooled_url).enqueue("hello")
        assert time.monotonic() - began < 10, "not after the time limit of a pool"
    # A direct connection may change it.
    with JobQueue(url) as queue:
        queue.enqueue("hello")
