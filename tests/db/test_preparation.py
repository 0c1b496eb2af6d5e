"""Before a migration, columns are added and indexes are built without blocking writers, and interrupted builds are
repeated."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import which
from typing import Any

import psycopg
import pytest
from chaos.next_version import MIGRATION, write_next_version
from chaos.servers import bouncer
from psycopg import Connection, IsolationLevel
from psycopg.conninfo import conninfo_to_dict

from tests.conftest import SERVER, TEMPLATE
from tests.support.databases import create_database
from tests.support.next_version import environment_of, sql_of
from tests.support.strangers import create_lookalikes, drop_stranger, was_called
from treadle import SchemaError, migrate
from treadle.db import preparation, table_locks
from treadle.db.migrations import migration_files, migration_sql
from treadle.db.preparation import Column, Index, Preparation, preparations, prepare
from treadle.db.query import sql_names
from treadle.db.setup_connection import connect

ROWS = 200
INDEXES = """
select class.relname::text, index.indisvalid, pg_get_indexdef(class.oid)
from pg_index as index join pg_class as class on class.oid = index.indexrelid
where index.indrelid = 'treadle.jobs'::regclass
order by 1"""
BUILDING = "select from pg_stat_progress_create_index where datname = current_database() and phase ~ 'waiting'"
needs_pgbouncer = pytest.mark.skipif(which("pgbouncer") is None, reason="pgbouncer is not installed")


@pytest.fixture(scope="module")
def next_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a version whose migration prepares a column and an index."""
    folder = tmp_path_factory.mktemp("next")
    write_next_version(folder)
    return folder


@pytest.fixture(scope="module")
def new_indexes(next_version: Path) -> list[Any]:
    """Those of a new schema of that version."""
    for url in create_database(os.environ[SERVER], "template0"):
        with sql_of(next_version):
            migrate(url)
        with psycopg.connect(url) as connection:
            return connection.execute(INDEXES).fetchall()
    raise AssertionError("unreachable")


@pytest.fixture(scope="module")
def old_template() -> Iterator[str]:
    """The name of a database with the schema of this version and some jobs."""
    for url in create_database(os.environ[SERVER], os.environ[TEMPLATE]):
        with psycopg.connect(url) as connection:
            connection.execute(f"insert into treadle.jobs (job_type) select 'a' from generate_series(1, {ROWS})")
        yield str(conninfo_to_dict(url)["dbname"])


@pytest.fixture
def old_url(server_url: str, old_template: str, next_version: Path) -> Iterator[str]:
    """A database to upgrade to the next version."""
    with sql_of(next_version):
        yield from create_database(server_url, old_template)


@pytest.fixture
def monitor(old_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(old_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def snapshot(old_url: str) -> Iterator[Connection[Any]]:
    """An older transaction without a lock on the table: a build of an index waits for it, and a new column does not."""
    with psycopg.connect(old_url) as connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.execute("select 1")
        yield connection


def until_building(monitor: Connection[Any]) -> None:
    end = time.monotonic() + 45
    while not monitor.execute(BUILDING).fetchall():
        assert time.monotonic() < end, "no build of an index waits"
        time.sleep(0.01)


def steps() -> list[Preparation]:
    return [step for number, name in migration_files() for step in preparations(number, name)]


def index_ids(monitor: Connection[Any]) -> set[int]:
    rows = monitor.execute("select oid from pg_class where relname ~ '^idx_jobs_(region|claimable)$'").fetchall()
    return {oid for (oid,) in rows}


def leave_invalid_index(url: str, monitor: Connection[Any], snapshot: Connection[Any]) -> None:
    """As a run that is cancelled does."""
    with connect(url) as connection:
        for step in steps():
            if isinstance(step, Column):
                connection.execute(step.sql.encode())
            else:
                connection.execute("set statement_timeout = '300ms'")
                with pytest.raises(psycopg.errors.QueryCanceled):
                    connection.execute(step.sql.encode())
    snapshot.rollback()
    assert ("idx_jobs_region", False) in [row[:2] for row in monitor.execute(INDEXES)]


def assert_upgraded(monitor: Connection[Any], new_indexes: list[Any]) -> None:
    """All indexes are valid, and those of a new schema."""
    assert monitor.execute(INDEXES).fetchall() == new_indexes
    assert all(valid for _, valid, _ in new_indexes)
    assert any("region" in definition for _, _, definition in new_indexes)


def test_every_file_belongs_to_a_migration() -> None:
    names = set(sql_names("migrations"))
    before = {name for name in names if name.endswith(preparation.BEFORE)}
    assert {name.replace(preparation.BEFORE, ".sql") for name in before} <= names - before


def test_a_new_schema_needs_no_preparation(empty_url: str, next_version: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "_prepare", lambda *_: pytest.fail("a new schema was prepared"))
    with sql_of(next_version):
        assert not {name for _, name in migration_files() if name.endswith(preparation.BEFORE)}
        assert {type(step) for step in steps()} == {Column, Index}
        assert "concurrently" not in migration_sql(empty_url)
        assert MIGRATION in migrate(empty_url)


def test_writers_go_on_while_the_build_waits_for_an_older_one(
    old_url: str, new_indexes: list[Any], monitor: Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    monitor.execute(next(step.sql for step in steps() if isinstance(step, Column)).encode())
    with psycopg.connect(old_url) as writer, ThreadPoolExecutor() as pool, caplog.at_level(logging.INFO, "treadle"):
        pid = writer.info.backend_pid
        writer.execute("insert into treadle.jobs (job_type) values ('older')")
        run = pool.submit(migrate, old_url)
        until_building(monitor)
        monitor.execute("set statement_timeout = '5s'")
        end = time.monotonic() + 3.5
        while time.monotonic() < end:
            monitor.execute("insert into treadle.jobs (job_type) values ('newer')")
            assert monitor.execute("select from treadle.claim_jobs('w', '{newer}', 1)").fetchall()
        assert not run.done()
        writer.commit()
        assert MIGRATION in run.result(30)
    assert caplog.text.count("waiting for transactions that are older than the new index idx_jobs_region") == 1
    assert f": pid {pid} (idle in transaction for " in caplog.text
    assert_upgraded(monitor, new_indexes)


def test_the_command_says_what_it_waits_for(old_url: str, snapshot: Connection[Any], next_version: Path) -> None:
    command = [sys.executable, "-m", "treadle", "migrate", "--database-url", old_url]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment_of(next_version)
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        snapshot.rollback()
        output, _ = process.communicate(timeout=60)
    pid = snapshot.info.backend_pid
    assert line.startswith(f"waiting for transactions that are older than the new index idx_jobs_region: pid {pid} (")
    assert MIGRATION in output
    assert process.returncode == 0


def test_a_build_that_was_cancelled_is_repeated(
    old_url: str, new_indexes: list[Any], monitor: Connection[Any], snapshot: Connection[Any]
) -> None:
    leave_invalid_index(old_url, monitor, snapshot)
    assert migrate(old_url)
    assert_upgraded(monitor, new_indexes)


def test_the_build_of_a_run_that_was_killed_is_awaited(
    old_url: str,
    new_indexes: list[Any],
    monitor: Connection[Any],
    snapshot: Connection[Any],
    next_version: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its statement goes on. Until it has ended, the index is not valid, and must not be dropped."""
    command = [sys.executable, "-c", f"from treadle import migrate; migrate({old_url!r})"]
    with subprocess.Popen(command, env=environment_of(next_version)) as killed:
        until_building(monitor)
        killed.send_signal(signal.SIGKILL)
    built = index_ids(monitor)
    with ThreadPoolExecutor() as pool, caplog.at_level(logging.INFO, "treadle"):
        run = pool.submit(migrate, old_url)
        time.sleep(3)
        assert not run.done()
        snapshot.rollback()
        assert run.result(60)
    assert "waiting for another session that builds an index on treadle.jobs: pid " in caplog.text
    assert index_ids(monitor) < built
    assert_upgraded(monitor, new_indexes)


@pytest.mark.long
def test_eight_runs_at_once_build_the_index_once(
    old_url: str, new_indexes: list[Any], monitor: Connection[Any], snapshot: Connection[Any]
) -> None:
    with ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(migrate, old_url) for _ in range(8)]
        until_building(monitor)
        built = index_ids(monitor)
        time.sleep(2)
        snapshot.rollback()
        assert sorted(bool(run.result(60)) for run in runs) == [False] * 7 + [True]
    assert index_ids(monitor) < built
    assert_upgraded(monitor, new_indexes)


@needs_pgbouncer
def test_behind_a_pooler_eight_runs_build_the_index_once(
    old_url: str, new_indexes: list[Any], monitor: Connection[Any], snapshot: Connection[Any], project_folder: Path
) -> None:
    with bouncer(old_url, project_folder, "transaction") as pooled_url, ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(migrate, pooled_url) for _ in range(8)]
        until_building(monitor)
        time.sleep(4)
        snapshot.rollback()
        assert sorted(bool(run.result(60)) for run in runs) == [False] * 7 + [True]
        with psycopg.connect(pooled_url) as pooled:
            assert pooled.execute("show search_path").fetchone() == ('"$user", public',)
    assert_upgraded(monitor, new_indexes)


def set_timeouts(monitor: Connection[Any]) -> None:
    names = ["statement_timeout", "lock_timeout"]
    names += ["transaction_timeout"] if monitor.info.server_version >= 170000 else []
    for name in names:
        monitor.execute(f"alter database {monitor.info.dbname} set {name} = '1s'".encode())


def test_the_timeouts_of_the_role_do_not_end_the_build(
    old_url: str, new_indexes: list[Any], monitor: Connection[Any], snapshot: Connection[Any]
) -> None:
    set_timeouts(monitor)
    with ThreadPoolExecutor() as pool:
        run = pool.submit(migrate, old_url)
        until_building(monitor)
        time.sleep(2.5)
        snapshot.rollback()
        assert run.result(60)
    assert_upgraded(monitor, new_indexes)


@needs_pgbouncer
def test_a_timeout_that_a_pooler_does_not_let_us_change_is_explained(
    old_url: str, new_indexes: list[Any], monitor: Connection[Any], snapshot: Connection[Any], project_folder: Path
) -> None:
    set_timeouts(monitor)
    with bouncer(old_url, project_folder, "transaction") as pooled_url:
        with pytest.raises(SchemaError, match=r"idx_jobs_region was not built within statement_timeout and .* a URL"):
            migrate(pooled_url)
    snapshot.rollback()
    assert migrate(old_url)
    assert_upgraded(monitor, new_indexes)


def test_a_prepared_table_is_not_locked_again(
    old_url: str, monitor: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(old_url) as connection, psycopg.connect(old_url) as other:
        prepare(connection, old_url, "treadle", steps())
        before = monitor.execute("select oid, xmin::text from pg_class order by oid").fetchall()
        other.execute("lock table treadle.jobs in access exclusive mode")
        connection.execute("set statement_timeout = '5s'")
        prepare(connection, old_url, "treadle", steps())
        other.rollback()
        assert monitor.execute("select oid, xmin::text from pg_class order by oid").fetchall() == before
        assert "concurrently" not in migration_sql(old_url)
        # Nor for the column, if only the index is missing.
        monitor.execute("drop index treadle.idx_jobs_region")
        monkeypatch.setattr(table_locks, "TRIES", 1)
        other.execute("lock table treadle.jobs in access share mode")
        prepare(connection, old_url, "treadle", steps())


def test_a_prepared_claim_works_after_the_column_was_added(old_url: str, monitor: Connection[Any]) -> None:
    """The plan of its call of claim_jobs() expects rows without the column; functions are replaced by the migration."""
    claim = "select id from treadle.claim_job_batch('w', '{a}', 1)"
    with psycopg.connect(old_url, autocommit=True) as worker, connect(old_url) as connection:
        for _ in range(7):
            assert worker.execute(claim, prepare=True).fetchall()
        prepare(connection, old_url, "treadle", [step for step in steps() if isinstance(step, Column)])
        assert worker.execute(claim, prepare=True).fetchall()


def test_the_script_prepares_the_table_first(
    old_url: str, new_indexes: list[Any], monitor: Connection[Any], snapshot: Connection[Any]
) -> None:
    script = migration_sql(old_url)
    before, _, transaction = script.rpartition("begin;\n")
    assert "outside of any\n-- transaction" in before
    assert before.index("add column if not exists region") < before.index("create index concurrently")
    assert "concurrently" not in transaction
    assert "drop index concurrently" not in before
    leave_invalid_index(old_url, monitor, snapshot)
    with connect(old_url) as connection, pytest.raises(psycopg.Error, match="was not built completely; run: treadle"):
        connection.execute(f"begin;\n{transaction}".encode())
    script = migration_sql(old_url)
    assert "add column if not exists region" not in script.rpartition("begin;\n")[0]
    assert script.index("drop index concurrently") < script.index("create index concurrently")
    if (psql := which("psql")) is None:
        pytest.skip("psql is not installed")
    subprocess.run([psql, "-X", "-q", "-d", old_url], input=script, text=True, check=True, capture_output=True)
    assert migrate(old_url) == []
    assert_upgraded(monitor, new_indexes)


def test_an_upgrade_runs_no_code_of_a_stranger(old_url: str, new_indexes: list[Any], monitor: Connection[Any]) -> None:
    assert create_lookalikes(monitor) > 1000
    monitor.execute(f"alter database {monitor.info.dbname} set search_path = public, pg_catalog".encode())
    try:
        assert migrate(old_url)
        assert not was_called(old_url)
        monitor.execute("set search_path = pg_catalog")
        assert_upgraded(monitor, new_indexes)
    finally:
        drop_stranger(monitor)


def test_other_statements_are_refused() -> None:
    for sql in ("create index i on treadle.jobs (id)", "alter table treadle.jobs add column a int", "vacuum"):
        with pytest.raises(ValueError, match="expected a column or an index that is built concurrently"):
            preparation._parsed(14, sql)
