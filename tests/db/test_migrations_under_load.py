"""Migrations while others enqueue, claim and complete, and somebody reads for a long time: no error, no long wait."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Self

import psycopg
import pytest
from chaos.next_version import MIGRATION, VERSION, write_next_version
from chaos.processes import ROOT
from chaos.waiting import until

from tests.support.next_version import environment_of, sql_of
from treadle import JobQueue, migrate

CLAIMERS = 3
PAUSE_SECONDS = 0.02
READER_SECONDS = 1.5
ROUNDS = 100
ROUND = """
with claimed as materialized (select id, lease from treadle.claim_jobs('w', '{a}', 5))
select count(*) from claimed, treadle.complete_jobs(array[claimed.id], array[claimed.lease], array['w'])"""


class Load:
    """Threads that enqueue, claim and complete until the end of the block, some dozen times a second."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._work) for _ in range(CLAIMERS)]
        self.errors: list[Exception] = []
        self.rounds = 0

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._over.is_set():
                try:
                    connection.execute("select treadle.enqueue_jobs('a', array_fill('{}'::text, '{5}'))")
                    connection.execute(ROUND)
                except psycopg.Error as error:
                    self.errors.append(error)
                self.rounds += 1
                self._over.wait(PAUSE_SECONDS)


def forget_functions(url: str) -> None:
    """As if all functions and triggers had changed."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("truncate treadle.functions")


@pytest.fixture(scope="module")
def next_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("next")
    write_next_version(folder)
    return folder


@pytest.mark.parametrize("change", ["a new version", "functions"])
def test_nobody_notices_a_migration_behind_a_long_reader(own_url: str, next_version: Path, change: str) -> None:
    if change == "functions":
        forget_functions(own_url)
    version = sql_of(next_version) if change == "a new version" else nullcontext()
    with version, ThreadPoolExecutor(1) as pool, Load(own_url) as load, psycopg.connect(own_url) as reader:
        reader.execute("select from treadle.jobs")
        migration = pool.submit(migrate, own_url)
        time.sleep(READER_SECONDS)
        before = load.rounds
        # If the migration waited in the queue for its lock, so would the others.
        until(lambda: load.rounds > before + ROUNDS, seconds=60)
        assert not migration.done(), "it waits for the reader"
        reader.rollback()
        assert migration.result()
    # A call of claim_jobs() that waits while the table gets a column expected rows without it: documented. It gets one
    # before the migration, others with it.
    mismatches = [error for error in load.errors if isinstance(error, psycopg.errors.DatatypeMismatch)]
    assert len(load.errors) == len(mismatches) <= (2 * CLAIMERS if change == "a new version" else 0)


KILLED = """
import itertools, os, sys
import psycopg
from treadle.db import migrations

url = sys.argv[1]
execute = psycopg.Connection.execute
for left in itertools.count():
    process = os.fork()
    if process == 0:
        def count(self, *args, **kwargs):
            global left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), 9)
            return execute(self, *args, **kwargs)
        psycopg.Connection.execute = count
        migrations.migrate(url)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with psycopg.connect(url) as connection:
        print(code, *connection.execute("select max(version) from treadle.migrations").fetchone())
    if code == 0:
        break
"""


@pytest.mark.long
def test_a_migration_that_is_killed_at_any_statement_leaves_nothing_behind(own_url: str, next_version: Path) -> None:
    command = [sys.executable, "-c", KILLED, own_url]
    done = subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True, env=environment_of(next_version)
    )
    *killed, last = done.stdout.splitlines()
    assert len(killed) > 20
    assert set(killed) == {"-9 1"}
    assert last == f"0 {VERSION}"
    with sql_of(next_version):
        assert migrate(own_url) == []
        JobQueue(own_url).close()


def test_eight_migrations_at_once_upgrade_a_schema_once(own_url: str, next_version: Path) -> None:
    with sql_of(next_version):
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(migrate, [own_url] * 8))
        (applied,) = filter(None, results)
        assert applied == [MIGRATION, "job_region()", "tick()", "change_job()"]
        JobQueue(own_url).close()


def test_processes_of_the_version_before_start_on_the_next_schema(own_url: str, next_version: Path) -> None:
    """The migration is compatible: a rolling deploy, and a roll-back of the package."""
    with sql_of(next_version):
        assert migrate(own_url)
    assert migrate(own_url) == []
    with JobQueue(own_url, "worker-1") as queue:
        queue.enqueue("a")
        (job,) = queue.claim(["a"])
        queue.complete(job)


def test_a_changed_function_needs_no_lock(empty_url: str) -> None:
    """Not even that of a trigger, if the trigger itself has not changed."""
    migrate(empty_url)
    with psycopg.connect(empty_url) as reader, psycopg.connect(empty_url, autocommit=True) as connection:
        reader.execute("lock table treadle.jobs, treadle.lanes in access exclusive mode")
        connection.execute("update treadle.functions set digest = '' where name in ('change_job', 'tick')")
        assert migrate(empty_url) == ["tick()", "change_job()"]
