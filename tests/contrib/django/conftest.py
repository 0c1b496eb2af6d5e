"""The Django project under project/, with a database of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.conftest import SERVER
from tests.support.databases import create_database
from tests.support.forks import Forks
from tests.support.workers import until
from treadle import JobQueue, JobRow, Status

SESSIONS = "from pg_stat_activity where application_name = 'orm' and datname = current_database()"
FOLDER = Path(__file__).parent / "project"


class Project:
    """`manage.py` in processes of their own: the settings of Django belong to a process."""

    def __init__(self, url: str, forks: Forks) -> None:
        self.url = url
        self.queue = JobQueue(url)
        self._forks = forks
        self._connection = psycopg.connect(url, autocommit=True)

    def close(self) -> None:
        self._connection.close()
        self.queue.close()

    def environment(self, **more: str) -> dict[str, str]:
        found = {name: value for name, value in os.environ.items() if not name.startswith("TREADLE_")}
        return {**found, "PROJECT_DATABASE": self.url, "DJANGO_SETTINGS_MODULE": "website.settings", **more}

    def manage(self, *arguments: str, fails: bool = False, **environment: str) -> str:
        """Run `manage.py` in a process that has imported Django already, and return what it printed."""
        ended = self._forks.run("manage.py", *arguments, folder=FOLDER, environment=self.environment(**environment))
        assert bool(ended.returncode) == fails, ended
        return ended.stdout + ended.stderr

    def python(self, *arguments: str, fails: bool = False, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=FOLDER,
            env=self.environment(**environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert bool(done.returncode) == fails, done.stdout
        return done.stdout

    @contextmanager
    def worker(self, *options: str, **environment: str) -> Iterator[None]:
        command = [sys.executable, "manage.py", "treadle", "worker", "--poll", "0.1s", *options]
        process = subprocess.Popen(command, cwd=FOLDER, env=self.environment(**environment))
        try:
            yield
        finally:
            process.terminate()
            assert process.wait(30) == 0

    def execute(self, statement: str, *parameters: object) -> list[Any]:
        found = self._connection.execute(statement.encode(), parameters)
        return found.fetchall() if found.description else []

    def reset(self) -> None:
        """No jobs, and one order that is not paid."""
        self.execute("truncate treadle.jobs, treadle.lanes, shop_order cascade")
        self.execute("insert into shop_order (id, text, paid) values (1, 'a book', false)")

    def run(self, *job_types: str) -> list[JobRow]:
        """Enqueue these, and wait for them."""
        return self.finished([self.queue.enqueue(each, {"order": 1}) for each in job_types])

    def finished(self, jobs: list[UUID]) -> list[JobRow]:
        rows: list[JobRow] = []

        def have_finished() -> bool:
            rows[:] = map(self.queue.get, jobs)
            return all(row.status.finished for row in rows)

        until(have_finished)
        return rows

    def sessions(self) -> list[int]:
        """The connections of Django, in a worker that has named them."""
        found = self.execute(f"select pid {SESSIONS}")
        return [pid for (pid,) in found]

    def pay_and_lose_connections(self) -> None:
        """Run each kind of job twice. All connections of Django are lost after each job."""
        for job_type in ("pay", "apay", "pay_in_a_process", "apay_in_a_process"):
            for _ in range(2):
                self.execute("update shop_order set paid = false")
                (row,) = self.run(job_type)
                assert (row.status, row.attempts) == (Status.COMPLETED, 1), row.last_error
                assert self.execute("select paid from shop_order") == [(True,)]
                self.execute(f"select pg_terminate_backend(pid, 10000) {SESSIONS}")


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    django = ["core.management", "db.backends.postgresql.base", "test", "urls"]
    forks = Forks(
        *(f"django.{each}" for each in django), "treadle.cli", "treadle.contrib.django", options=("-W", "error")
    )
    yield forks
    forks.close()


@pytest.fixture
def empty(forks: Forks) -> Iterator[Project]:
    """A project whose database has no tables yet."""
    for url in create_database(os.environ[SERVER], "template0"):
        project = Project(url, forks)
        yield project
        project.close()


@pytest.fixture(scope="session")
def migrated(forks: Forks) -> Iterator[Project]:
    for url in create_database(os.environ[SERVER], "template0"):
        project = Project(url, forks)
        assert "WARNING" not in project.manage("migrate")
        yield project
        project.close()


@pytest.fixture
def project(migrated: Project) -> Project:
    migrated.reset()
    return migrated
