"""The Django project under project/, with a database of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.conftest import SERVER
from tests.support.databases import create_database
from treadle import JobQueue

FOLDER = Path(__file__).parent / "project"


class Project:
    """`manage.py` in processes of their own: the settings of Django belong to a process."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.queue = JobQueue(url)

    def environment(self, **more: str) -> dict[str, str]:
        found = {name: value for name, value in os.environ.items() if not name.startswith("TREADLE_")}
        return {**found, "PROJECT_DATABASE": self.url, "DJANGO_SETTINGS_MODULE": "website.settings", **more}

    def manage(self, *arguments: str, fails: bool = False, **environment: str) -> str:
        """Run `manage.py` and return what it printed."""
        return self.python("-W", "error", "manage.py", *arguments, fails=fails, **environment)

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
        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute(statement.encode(), parameters)
            return found.fetchall() if found.description else []


@pytest.fixture(scope="module")
def migrated() -> Iterator[Project]:
    for url in create_database(os.environ[SERVER], "template0"):
        project = Project(url)
        assert "WARNING" not in project.manage("migrate")
        yield project
        project.queue.close()


@pytest.fixture
def project(migrated: Project) -> Project:
    migrated.execute("truncate treadle.jobs, treadle.lanes, shop_order cascade")
    migrated.execute("insert into shop_order (id, text, paid) values (1, 'a book', false)")
    return migrated
