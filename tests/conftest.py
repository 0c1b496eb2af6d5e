"""A real PostgreSQL for every test: one server for the run, one database per test process, emptied before each test.

TREADLE_TEST_URL names an external server (a role that may create databases); without it the embedded one is used, or
one that tests/matrix.py describes: with the programs in TREADLE_TEST_BINARIES, the settings in TREADLE_TEST_SETTINGS
(JSON), or used by the role TREADLE_TEST_ROLE, which is no superuser.
"""

import asyncio
import gc
import json
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

from tests.support.apps import use_database
from tests.support.dashboard_fixtures import (  # noqa: F401
    NEXT_TEST,
    NO_CHROMIUM,
    chromium,
    dashboard,
    operator,
    patient,
    session_chromium,
    site,
    tab,
    theme,
    visit,
)
from tests.support.databases import SharedDatabase, create_database
from tests.support.embedded_server import QUICK, clean_up
from tests.support.server_folders import copied_folder, new_folder
from tests.support.sessions import continue_sessions
from tests.support.stores import Album, Resize
from tests.support.waiting import Barrier
from tests.support.workers import Ledger, WaitingJob
from treadle import JobQueue, JobRow, Reason, Retries, Stored, Treadle, migrate
from treadle.db import embedded
from treadle.db.database import Database
from treadle.db.embedded import embedded_url, leave
from treadle.db.screen_limits import TimeLimits

if TYPE_CHECKING:
    # Django, SQLAlchemy and a web server take 0.5 s to import, so only the tests that need them import them.
    from tests.support.callers import Caller
    from tests.support.web import Server

Connect = Callable[..., Connection[Any]]
Why = Callable[[UUID], Reason]

# All files that tests write, including the data of their servers, go to memory if enough is free: creating a database
# there takes a tenth of the time that a disk needs. Processes that tests start find the folder through TMPDIR.
MEMORY, REQUIRED_BYTES = Path("/dev/shm"), 3 * 2**30  # noqa: S108 - all names written there are unique
if (
    os.access(MEMORY, os.W_OK)
    and shutil.disk_usage(MEMORY).free > REQUIRED_BYTES
    and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
):
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

# Set by the process that the user started, read by the processes that it starts (xdist).
SERVER = "TREADLE_TEST_SERVER"
TEMPLATE = "TREADLE_TEST_TEMPLATE"
_folder = Path(tempfile.gettempdir()) / f"treadle-tests-{os.getpid()}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported and collected stays: looking through it for garbage took half a second each time."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell ignores SIGINT for its background jobs, and every process started here would inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        return
    # With it, every process started here would compile Treadle again, which is a fifth of its start time.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    url = os.environ.get("TREADLE_TEST_URL")
    if not url:
        _folder.mkdir(mode=0o711)
        settings = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}
        # Autovacuum is on but never due: it would change plans in the middle of a test. A test that needs statistics
        # runs ANALYZE itself.
        settings["autovacuum_naptime"] = "1d"
        settings |= json.loads(os.environ.get("TREADLE_TEST_SETTINGS", "{}"))
        with pytest.MonkeyPatch.context() as monkeypatch:
            if binaries := os.environ.get("TREADLE_TEST_BINARIES"):
                monkeypatch.setattr(embedded, "_binaries", lambda account: Path(binaries))
            url = embedded_url(_folder, settings=settings)
        if role := os.environ.get("TREADLE_TEST_ROLE"):
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"create role {role} login createdb")
                # The tables are emptied without their triggers.
                connection.execute(f"grant set on parameter session_replication_role to {role}")
            url = make_conninfo(url, user=role)
    template = f"treadle_template_{uuid4().hex[:8]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"create database {template}")
    migrate(make_conninfo(url, dbname=template))
    os.environ[SERVER], os.environ[TEMPLATE] = url, template


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first: the types, and modules with a browser, which starts once in one process."""
    browsing = {item.path for item in items if "chromium" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: (item.path.name != "test_types.py", item.path not in browsing))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    item.session.stash[NEXT_TEST] = nextitem if isinstance(nextitem, pytest.Function) else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if any(NO_CHROMIUM in str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(f"skipped: {NO_CHROMIUM}")


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
    names = ("TREADLE_DATABASE_URL", "DATABASE_URL", "TREADLE_LISTEN_URL", "TREADLE_SCHEMA")
    for name in (*names, "TREADLE_DASHBOARD_VIEWER", "TREADLE_DASHBOARD_OPERATOR"):
        monkeypatch.delenv(name, raising=False)


# On a busy machine, tests wait for longer than visitors do. A test of a limit sets its own.
LIMITS: dict[str, Any] = {
    "treadle.db.database.READ_SECONDS": 60.0,
    "treadle.db.examination.SECONDS": 60.0,
    "treadle.db.screen_limits.ON_SCREEN": TimeLimits(connection=60.0, answer=60.0, lock=60.0),
    "treadle.db.queries.ids.SEARCH_TIME": None,
    "treadle.db.queries.listing.SEARCH_TIME": None,
    "treadle.operations.metrics.READ_SECONDS": 60.0,
    "treadle.operations.verdict.SECONDS": 60.0,
    "treadle.operations.verdict.STATEMENT_SECONDS": 60.0,
    "treadle.worker.options.LEASE_SECONDS": 30,
}


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in LIMITS.items():
        monkeypatch.setattr(name, value)
    monkeypatch.setenv("TREADLE_WORKER_LEASE", "30s")  # for programs


@pytest.fixture
def server_url() -> str:
    return os.environ[SERVER]


@pytest.fixture
def empty_url(server_url: str) -> Iterator[str]:
    """An empty database, without the schema."""
    yield from create_database(server_url, "template0")


@pytest.fixture(scope="module")
def module_url() -> Iterator[str]:
    """A database shared by the tests of a module, which must leave it unchanged."""
    yield from create_database(os.environ[SERVER], os.environ[TEMPLATE])


@pytest.fixture(scope="session")
def shared_database() -> Iterator[SharedDatabase]:
    """The database of this test process."""
    for url in create_database(os.environ[SERVER], os.environ[TEMPLATE]):
        database = SharedDatabase(url)
        with pytest.MonkeyPatch.context() as monkeypatch:
            continue_sessions(database.sessions, monkeypatch)
            yield database
        database.close()


@pytest.fixture
def url(request: pytest.FixtureRequest, server_url: str) -> Iterator[str]:
    """A database with the schema and no jobs."""
    if request.node.get_closest_marker("own_database"):
        yield from create_database(server_url, os.environ[TEMPLATE])
        return
    shared: SharedDatabase = request.getfixturevalue("shared_database")
    shared.empty(fresh=request.node.get_closest_marker("fresh_database") is not None)
    yield shared.url  # noqa: PT022 - the other branch has a teardown


@pytest.fixture
def own_url(server_url: str) -> Iterator[str]:
    """A database with the schema that no other test uses, for tests that change the schema."""
    yield from create_database(server_url, os.environ[TEMPLATE])


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
def barrier(connect: Connect) -> Iterator[Barrier]:
    barrier = Barrier(connect())
    yield barrier
    barrier.remove()


def ours(url: str) -> str:
    """The URL that the library makes of the test's: see db/session_settings.py."""
    if "default_transaction_isolation" not in os.environ.get("TREADLE_TEST_SETTINGS", ""):
        return url
    return make_conninfo(url, options=r"-c default_transaction_isolation=read\ committed")


def checked(url: str) -> Database:
    """The test's database, without a connection that first checks the schema: it is the template's."""
    database = Database(url, "treadle")
    database.use(ours(url))
    return database


@pytest.fixture
def queue(url: str) -> Iterator[JobQueue]:
    with JobQueue(checked(url), "worker-1") as queue:
        yield queue


@pytest.fixture
def other(url: str) -> Iterator[JobQueue]:
    """A second worker on the same queue."""
    with JobQueue(checked(url), "worker-2") as queue:
        yield queue


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Where the handlers of tests.support.handlers record their starts and ends."""
    monkeypatch.setenv(FOLDER, str(tmp_path / "ledger"))
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def app(url: str) -> Iterator[Treadle]:
    app = Treadle(url)
    app.database.use(ours(url))
    yield app
    app.close()


@pytest.fixture
def why(app: Treadle) -> Why:
    return lambda job_id: app.handle(job_id).why()


@pytest.fixture
def count_orders(connection: Connection[Any]) -> Iterator[Callable[[], int]]:
    """Creates the table public.orders; returns a function that counts its rows."""
    connection.execute("create table public.orders (id int)")
    yield lambda: len(connection.execute("select from public.orders").fetchall())
    connection.execute("drop table public.orders")


@pytest.fixture
def handlers_use_test_database(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the application of tests.support.handlers use the test's database."""
    from tests.support import handlers

    use_database(handlers.app, url, monkeypatch)


@pytest.fixture
def waiting_job(app: Treadle) -> WaitingJob:
    began: list[int] = []
    go = asyncio.Event()

    @app.job(retry=Retries(0))
    async def wait_for_event(n: int) -> int:
        began.append(n)
        await go.wait()
        return n

    return wait_for_event, began, go


@pytest.fixture
def resize(app: Treadle) -> Resize:
    @app.job
    def resize(picture: Stored, others: list[Stored] = [], album: Album | None = None, extra: Any = None) -> None: ...  # noqa: B006

    return resize


# Connections of other libraries


@pytest.fixture
def exit_stack() -> Iterator[ExitStack]:
    with ExitStack() as exit_stack:
        yield exit_stack


@pytest.fixture
def caller(url: str, kind: str, exit_stack: ExitStack) -> "Caller":
    from tests.support.callers import Caller

    return Caller(url, kind, exit_stack)


# Events over HTTP


@pytest.fixture
def server(app: Treadle) -> Iterator["Server"]:
    from tests.support.web import serving
    from treadle.web import events_app

    with serving(events_app(app)) as server:
        yield server


@pytest.fixture
def job(queue: JobQueue) -> JobRow:
    """A job that the test itself has claimed; no worker runs."""
    queue.enqueue("films", {})
    (job,) = queue.claim(["films"])
    return job


# The embedded server


@pytest.fixture
def project_folder() -> Iterator[Path]:
    """A folder that every user may enter. The temporary folders of pytest are closed to other users."""
    project_folder = Path(tempfile.mkdtemp(prefix="treadle-test-"))
    project_folder.chmod(0o711)
    yield project_folder
    for lock in list(project_folder.rglob("users")):
        clean_up(lock.parent)
    shutil.rmtree(project_folder, ignore_errors=True)


@pytest.fixture
def new_server_folder(project_folder: Path) -> Path:
    """The folder of an embedded server that was never started."""
    return project_folder / ".treadle"


@pytest.fixture(scope="session")
def initialized_server_folder() -> Iterator[Path]:
    with new_folder() as folder:
        embedded_url(folder, QUICK)
        leave(folder)
        yield folder


@pytest.fixture
def server_folder(new_server_folder: Path, initialized_server_folder: Path) -> Path:
    """The folder of an embedded server after initdb, which takes ten times as long as a start."""
    subprocess.run(["cp", "-a", initialized_server_folder, new_server_folder], check=True)
    return new_server_folder


# The doctor


@pytest.fixture(scope="session")
def small_server_url(initialized_server_folder: Path) -> Iterator[str]:
    """The URL of a server with low limits, whose settings a test may change."""
    from tests.support.doctor import SETTINGS

    with copied_folder(initialized_server_folder) as folder:
        url = embedded_url(folder, SETTINGS)
        migrate(url)
        yield url
        leave(folder)
