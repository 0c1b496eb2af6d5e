"""A Django project with Treadle: its own tests, migrations, settings and commands."""

import json
import os
import re
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import django
import pytest
from chaos.next_version import VERSION, write_next_version

from tests.contrib.django.conftest import Project
from treadle import Status
from treadle.contrib.django.schema import UpgradeSchema
from treadle.db.migrations import migration_files

NEWEST = max(number for number, _ in migration_files())


def test_the_tests_of_the_project_pass(project: Project) -> None:
    """In a TestCase and a TransactionTestCase. The database of the tests gets the schema from the migrations."""
    assert "\nOK" in project.manage("test", "--noinput")
    assert project.queue.list().jobs == [], "the tests have written to their own database"


@pytest.mark.parametrize("options", [[], pytest.param(["--nomigrations"], marks=pytest.mark.long)])
def test_the_tests_of_the_project_pass_with_pytest(project: Project, options: list[str]) -> None:
    printed = project.python(
        *("-m", "pytest", "-c", os.devnull, "--rootdir", ".", "-p", "no:cacheprovider", "--create-db", *options),
        *("-p", "django", "-p", "treadle", "shop/pytest_orders.py"),
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",  # other plugins take longer to load than the tests
    )
    assert "5 passed" in printed


# Migrations


def test_migrate_creates_the_schema_and_is_recorded(project: Project) -> None:
    assert project.execute("select max(version) from treadle.migrations") == [(NEWEST,)]
    assert "No migrations to apply" in project.manage("migrate")
    assert "No changes detected" in project.manage("makemigrations", "--check")
    assert "[ ]" not in project.manage("showmigrations", "treadle")


@pytest.mark.long
def test_a_new_version_of_the_schema_is_told_by_django(empty: Project, tmp_path: Path) -> None:
    """As after an upgrade of Treadle: a deploy that checks for migrations finds one."""
    empty.manage("migrate")
    write_next_version(tmp_path)

    def migrate(*options: str, fails: bool = False) -> str:
        return empty.python("manage.py", "migrate", *options, fails=fails, PYTHONPATH=str(tmp_path))

    assert f"Bring the schema of Treadle to version {VERSION}" in migrate("--check", "--plan", fails=True)
    migrate()
    migrate("--check")
    assert empty.execute("select max(version) from treadle.migrations") == [(VERSION,)]


def test_sqlmigrate_prints_what_would_run(empty: Project) -> None:
    printed = empty.manage("sqlmigrate", "treadle", "0001")
    assert re.search(r'create table "?treadle"?\.jobs', printed)
    told = empty.manage("treadle", "jobs", fails=True)
    assert "there is no schema treadle in this database; run: manage.py migrate" in told
    assert empty.execute("select 1 from pg_tables where schemaname = 'treadle'") == []


@pytest.mark.long
def test_the_schema_may_have_another_name(empty: Project) -> None:
    """And `treadle migrate` may have created it before."""
    settings = json.dumps({"SCHEMA": "queue"})
    empty.manage("treadle", "migrate", PROJECT_TREADLE=settings)
    empty.manage("migrate", PROJECT_TREADLE=settings)
    assert "No changes detected" in empty.manage("makemigrations", "--check", PROJECT_TREADLE=settings)
    assert empty.execute("select max(version) from queue.migrations") == [(NEWEST,)]
    assert empty.execute("select 1 from pg_tables where schemaname = 'treadle'") == []
    count = "from treadle.contrib.django.models import Job; print(Job.objects.count())"
    assert empty.manage("shell", "-v", "0", "-c", count, PROJECT_TREADLE=settings).strip() == "0"


def test_migrate_leaves_other_databases_alone(project: Project) -> None:
    assert "Applying treadle.0001_baseline... OK" in project.manage("migrate", "--database", "file")


def test_a_change_of_functions_is_applied_by_migrate_and_told_by_check(project: Project) -> None:
    """It comes with a new version of Treadle, and needs no migration of Django's."""
    assert "no issues" in project.manage("check", "--database", "default")
    project.execute("delete from treadle.functions where name = 'find_lanes'")
    project.execute("drop function treadle.find_lanes")
    told = project.manage("check", "--database", "default")
    assert "(treadle.W001) schema treadle lacks functions\n\tHINT: Run: manage.py migrate" in told
    project.manage("migrate")
    assert "no issues" in project.manage("check", "--database", "default")
    assert project.execute("select 1 from treadle.find_lanes() limit 1") == []


def test_a_migration_cannot_be_reversed() -> None:
    """Jobs would be lost. Those who want that can drop the schema."""
    assert not UpgradeSchema(1).reversible


# Settings


MISTAKES: list[tuple[object, str]] = [
    ([], "(treadle.E001) TREADLE must be a dict, got []"),
    ({"SCHEME": "queue"}, "(treadle.E001) TREADLE has no setting 'SCHEME'."),
    ({"DATABASE": "other"}, "(treadle.E002) TREADLE['DATABASE'] is 'other', which is not in DATABASES."),
    ({"DATABASE": "file"}, "(treadle.E003) DATABASES['file'] is sqlite."),
    ({"SCHEMA": "a b"}, "(treadle.E004) TREADLE is invalid: "),
    ({"KEEP": {"done": "1h"}}, "(treadle.E004) TREADLE is invalid: "),
]


def test_mistakes_in_the_settings_are_told_by_check(project: Project) -> None:
    for settings, told in MISTAKES:
        assert told in project.manage("check", fails=True, PROJECT_TREADLE=json.dumps(settings))


def test_the_settings_are_those_of_the_application(project: Project) -> None:
    show = "from treadle.contrib.django import app; print(app.payload_limit, app.workload.keep)"
    settings = {"PAYLOAD_LIMIT": 1000, "KEEP": {"completed": "1h", "failed": "2h", "cancelled": "3h"}}
    printed = project.manage("shell", "-v", "0", "-c", show, PROJECT_TREADLE=json.dumps(settings))
    assert printed.startswith("1000 ")


@pytest.mark.long
def test_options_of_the_database_are_those_of_workers(project: Project) -> None:
    """A role, a timeout, and what is for Django alone."""
    role = f"clerk {uuid4().hex}"
    show = """
from treadle.contrib.django.conf import database_url
from treadle.db.setup_connection import connect
with connect(database_url()) as connection:
    print(connection.execute("select current_user, current_setting('statement_timeout')").fetchone())
"""
    options = {"assume_role": role, "options": "-c statement_timeout=7s", "isolation_level": 4}
    options |= {"server_side_binding": True, "pool": {"max_size": 2}}
    project.execute(f'create role "{role}"')
    try:
        printed = project.manage("shell", "-v", "0", "-c", show, PROJECT_OPTIONS=json.dumps(options))
    finally:
        project.execute(f'drop role "{role}"')
    assert printed.strip() == f"('{role}', '7s')"


# Commands


def test_manage_py_runs_a_worker_and_the_other_commands(project: Project) -> None:
    def treadle(*arguments: str, fails: bool = False) -> str:
        return project.python("-W", "error", "manage.py", "treadle", *arguments, fails=fails)

    printed = treadle("enqueue", "pay", "order=1")
    (job,) = (row.id for row in project.queue.list().jobs)
    assert str(job) in printed
    treadle("worker", "--drain", "--settings", "website.settings")
    assert project.queue.get(job).status == Status.COMPLETED
    assert str(job) in project.manage("treadle", "jobs", "--json")
    assert project.manage("treadle", "--help").startswith("Usage: manage.py treadle [OPTIONS] COMMAND")
    assert "there is no job" in treadle("show", "0" * 32, fails=True)


@pytest.mark.skipif(django.VERSION < (6,), reason="django.tasks came with Django 6")
def test_tasks_run_in_workers_and_in_their_child_processes(project: Project) -> None:
    enqueue = """
from shop import tasks
for backend in ("default", "apart"):
    print(tasks.add.using(backend=backend).enqueue(1).id, tasks.context_of.using(backend=backend).enqueue("hello").id)
"""
    printed = project.manage("shell", "-v", "0", "-c", enqueue).split()
    project.manage("treadle", "worker", "--drain")
    results: list[Any] = [project.queue.get(UUID(each)).result for each in printed]
    assert results[::2] == [3, 3]
    assert [each[1:4] for each in results[1::2]] == [[1, "RUNNING", "hello"]] * 2


def test_commands_can_be_called_by_code(project: Project) -> None:
    code = """
from django.core.management import CommandError, call_command
call_command("treadle", "stats")
call_command("treadle", "worker", "--drain")
try:
    call_command("treadle", "show", "0" * 32)
except CommandError as error:
    print("refused:", error)
"""
    assert "refused: there is no job" in project.manage("shell", "-v", "0", "-c", code)
