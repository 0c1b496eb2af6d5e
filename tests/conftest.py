"""A real PostgreSQL for every test: one server for the run, one database per test process, emptied before each test.

TREADLE_TEST_URL names an external server (a role that may create databases); without it the embedded one is used.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import psycopg
import pytest
from chaos.ledger import FOLDER
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from tests.support.apps import move
from tests.support.dashboard_fixtures import NO_CHROMIUM, chromium, dashboard, operator, site, theme, visit  # noqa: F401
from tests.support.databases import empty, made
from tests.support.embedded_server import QUICK, clean_up
from tests.support.stores import Album, Resize
from tests.support.waiting import Gate
from tests.support.workers import Ledger, Parked
from treadle import JobQueue, JobRow, Reason, Stored, Treadle, migrate
from treadle.db.embedded import embedded_url, leave

if TYPE_CHECKING:
    # Django, SQLAlchemy and a web server take half a second to import: only for the tests that need them.
    from tests.support.callers import Caller
    from tests.support.web import Server

Connect = Callable[..., Connection[Any]]
Why = Callable[[UUID], Reason]

# Everything that tests write, the data of their servers above all, goes to memory if there is room: a database is made
# there in a tenth of the time that a disk takes. The processes that tests start find it in TMPDIR.
MEMORY, ROOM = Path("/dev/shm"), 3 * 2**30  # noqa: S108 - what is written there has names of its own
if (
    os.access(MEMORY, os.W_OK)
    and shutil.disk_usage(MEMORY).free > ROOM
    and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
):
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

# Set by the process that the user started, read by the processes that it starts (xdist).
SERVER = "TREADLE_TEST_SERVER"
TEMPLATE = "TREADLE_TEST_TEMPLATE"
_folder = Path(tempfile.gettempdir()) / f"treadle-tests-{os.getpid()}"


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As a shell's background has it, and every process that is started here would.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        return
    # Where it is set, every process that is started here would compile Treadle anew: a fifth of its start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    url = os.environ.get("TREADLE_TEST_URL")
    if not url:
        _folder.mkdir(mode=0o711)
        settings = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}
        # On, but not in our time: it would change plans in the middle of a test. Who wants statistics says analyze.
        settings["autovacuum_naptime"] = "1d"
        url = embedded_url(_folder, settings=settings)
    template = f"treadle_template_{uuid4().hex[:8]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"create database {template}")
    migrate(make_conninfo(url, dbname=template))
    os.environ[SERVER], os.environ[TEMPLATE] = url, template


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if any(NO_CHROMIUM in str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(f"left out: {NO_CHROMIUM}")


def pytest_unconfigure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or SERVER not in os.environ:
        return
    with psycopg.connect(os.environ.pop(SERVER), autocommit=True) as connection:
        connection.execute(f"drop database {os.environ.pop(TEMPLATE)} with (force)")
    if _folder.exists():
        leave(_folder)
        shutil.rmtree(_folder)


@pytest.fixture(autouse=True)
def no_database_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("TREADLE_DATABASE_URL", "DATABASE_URL", "TREADLE_SCHEMA")
    for name in (*names, "TREADLE_DASHBOARD_VIEWER", "TREADLE_DASHBOARD_OPERATOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server_url() -> str:
    return os.environ[SERVER]


@pytest.fixture
def empty_url(server_url: str) -> Iterator[str]:
    """A database with nothing in it."""
    yield from made(server_url, "template0")


@pytest.fixture(scope="module")
def module_url() -> Iterator[str]:
    """A database for the tests of a module that leave it as it was."""
    yield from made(os.environ[SERVER], os.environ[TEMPLATE])


@pytest.fixture(scope="session")
def process_url() -> Iterator[str]:
    yield from made(os.environ[SERVER], os.environ[TEMPLATE])


@pytest.fixture
def url(request: pytest.FixtureRequest, server_url: str) -> Iterator[str]:
    """A database with the schema in it, and no jobs."""
    if request.node.get_closest_marker("own_database"):
        yield from made(server_url, os.environ[TEMPLATE])
        return
    process_url: str = request.getfixturevalue("process_url")
    empty(process_url)
    yield process_url  # noqa: PT022 - the other way has one


@pytest.fixture
def own_url(server_url: str) -> Iterator[str]:
    """A database of the test's own, with the schema in it: for who takes the schema apart."""
    yield from made(server_url, os.environ[TEMPLATE])


@pytest.fixture
def connect(url: str) -> Iterator[Connect]:
    """Opens connections to the test's database, with the queue's schema on the search path."""
    opened: list[Connection[Any]] = []

    def open_one(*, autocommit: bool = True) -> Connection[Any]:
        connection = psycopg.connect(url, autocommit=autocommit, options="-c search_path=treadle,public")
        opened.append(connection)
        return connection

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def connection(connect: Connect) -> Connection[Any]:
    return connect()


@pytest.fixture
def gate(connect: Connect) -> Iterator[Gate]:
    gate = Gate(connect())
    yield gate
    gate.remove()


@pytest.fixture
def queue(url: str) -> Iterator[JobQueue]:
    with JobQueue(url, "worker-1") as queue:
        yield queue


@pytest.fixture
def other(url: str) -> Iterator[JobQueue]:
    """A second worker on the same queue."""
    with JobQueue(url, "worker-2") as queue:
        yield queue


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Where the handlers of tests.support.handlers write down what they do."""
    monkeypatch.setenv(FOLDER, str(tmp_path / "ledger"))
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def app(url: str) -> Iterator[Treadle]:
    app = Treadle(url)
    yield app
    app.close()


@pytest.fixture
def why(app: Treadle) -> Why:
    return lambda job_id: app.handle(job_id).why()


@pytest.fixture
def orders(connection: Connection[Any]) -> Iterator[Callable[[], int]]:
    """A table of the caller's; called, how many rows it has."""
    connection.execute("create table public.orders (id int)")
    yield lambda: len(connection.execute("select from public.orders").fetchall())
    connection.execute("drop table public.orders")


@pytest.fixture
def here(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The handlers of tests.support.handlers enqueue into the test's database."""
    from tests.support import handlers

    move(handlers.app, url, monkeypatch)


@pytest.fixture
def parked(app: Treadle) -> Parked:
    began: list[int] = []
    go = asyncio.Event()

    @app.job(max_attempts=1)
    async def park(n: int) -> int:
        began.append(n)
        await go.wait()
        return n

    return park, began, go


@pytest.fixture
def resize(app: Treadle) -> Resize:
    @app.job
    def resize(picture: Stored, others: list[Stored] = [], album: Album | None = None, extra: Any = None) -> None: ...  # noqa: B006

    return resize


# Connections of other libraries


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def caller(url: str, kind: str, stack: ExitStack) -> "Caller":
    from tests.support.callers import Caller

    return Caller(url, kind, stack)


# Events over HTTP


@pytest.fixture
def server(app: Treadle) -> Iterator["Server"]:
    from tests.support.web import serving
    from treadle.web import events_app

    with serving(events_app(app)) as server:
        yield server


@pytest.fixture
def job(queue: JobQueue) -> JobRow:
    """One that is held by hand."""
    queue.enqueue("films", {})
    (job,) = queue.claim(["films"])
    return job


# The dashboard


# The embedded server


@pytest.fixture
def project() -> Iterator[Path]:
    """A folder that every user can pass through; pytest's own are closed to all but their maker."""
    project = Path(tempfile.mkdtemp(prefix="treadle-test-"))
    project.chmod(0o711)
    yield project
    for lock in list(project.rglob("users")):
        clean_up(lock.parent)
    shutil.rmtree(project, ignore_errors=True)


@pytest.fixture
def fresh(project: Path) -> Path:
    """The server's folder before its first start."""
    return project / ".treadle"


@pytest.fixture(scope="session")
def used_before() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="treadle-test-") as name:
        Path(name).chmod(0o711)
        folder = Path(name, ".treadle")
        embedded_url(folder, QUICK)
        leave(folder)
        yield folder


@pytest.fixture
def folder(fresh: Path, used_before: Path) -> Path:
    """The server's folder with its data made: initdb takes ten times as long as a start."""
    subprocess.run(["cp", "-a", used_before, fresh], check=True)
    return fresh


# The doctor


@pytest.fixture(scope="session")
def ward(used_before: Path) -> Iterator[str]:
    """A server whose settings may be spoilt, with little room in every respect."""
    from tests.support.doctor import SETTINGS

    with tempfile.TemporaryDirectory(prefix="treadle-test-") as name:
        Path(name).chmod(0o711)
        folder = Path(name, ".treadle")
        subprocess.run(["cp", "-a", used_before, folder], check=True)
        url = embedded_url(folder, SETTINGS)
        migrate(url)
        yield url
        leave(folder)
