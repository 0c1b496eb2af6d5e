"""The Django project, on the newest Django: its own tests, also those of django.tasks, then a server and a worker."""

import re
import shutil
from pathlib import Path

import httpx
import psycopg

from tests.integrations.environment import (
    ROOT,
    SECONDS,
    Environment,
    Skipped,
    database_server,
    requirements_of,
    wait_until,
)
from tests.support.pythons import find_interpreter

PROJECT = ROOT / "tests" / "contrib" / "django" / "project"
# Those that Django 6 supports.
PYTHONS = ("3.14", "3.13", "3.12")


def run_django(wheel: Path, folder: Path) -> str:
    python = next((found for each in PYTHONS if (found := find_interpreter(each))), None)
    if python is None:
        raise Skipped("Django 6 needs Python 3.12 or newer, which is not installed here")
    environment = Environment(folder / "environment", wheel, requirements_of(PROJECT), python)
    version = environment.succeed(["python", "-m", "django", "--version"], folder).strip()
    assert int(version.partition(".")[0]) >= 6, f"Django {version}"
    project = Path(shutil.copytree(PROJECT, folder / "project"))
    with database_server(folder / "server") as url:
        settings = {"PROJECT_DATABASE": url, "DJANGO_SETTINGS_MODULE": "website.settings"}
        run_tests(environment, project, settings)
        use(environment, project, settings)
    return f"Django {version}, {python.name}"


def run_tests(environment: Environment, project: Path, settings: dict[str, str]) -> None:
    done = environment.run(["python", "-W", "error", "manage.py", "test", "--noinput"], project, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stderr, done.stderr
    printed = environment.succeed(["pytest", "-q", "--create-db", "shop/pytest_orders.py"], project, **settings)
    assert "5 passed" in printed, printed


def use(environment: Environment, project: Path, settings: dict[str, str]) -> None:
    """An order over HTTP, whose job a worker runs, and a task of django.tasks."""
    manage = ["python", "-W", "error", "manage.py"]
    environment.succeed([*manage, "migrate"], project, **settings)
    environment.succeed([*manage, "migrate", "--check"], project, **settings)
    environment.succeed([*manage, "check", "--database", "default", "--fail-level", "WARNING"], project, **settings)
    worker = environment.start(
        [*manage, "treadle", "worker", "--poll", "0.1s"], project, project / "worker.log", **settings
    )
    log = project / "server.log"
    server = environment.start(
        ["python", "-u", "manage.py", "runserver", "--noreload", "127.0.0.1:0"], project, log, **settings
    )
    enqueue = "from shop import tasks; print(tasks.add.enqueue(1).id)"
    with worker as process, server, psycopg.connect(settings["PROJECT_DATABASE"], autocommit=True) as connection:
        task = environment.succeed([*manage, "shell", "-v", "0", "-c", enqueue], project, **settings).strip()
        wait_until(lambda: bool(re.search(r"server at http://\S+:\d+/", log.read_text())))
        (address,) = re.findall(r"server at (http://\S+/)", log.read_text())
        job = httpx.get(f"{address}order/", params={"text": "a book"}, timeout=SECONDS).text
        failed = httpx.get(f"{address}order/", params={"text": "a book", "fail": "1"}, timeout=SECONDS)
        assert failed.status_code == 500
        wait_until(lambda: not connection.execute("select from treadle.jobs where status <> 'completed'").fetchall())
        jobs = connection.execute("select id::text, job_type, result from treadle.jobs order by job_type").fetchall()
        assert [each[:2] for each in jobs] == [(job, "pay"), (task, "shop.tasks.add")]
        assert jobs[1][2] == 3, jobs
        assert connection.execute("select text, paid from shop_order").fetchall() == [("a book", True)]
        process.terminate()
        assert process.wait(SECONDS) == 0
