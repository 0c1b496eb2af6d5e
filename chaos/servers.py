"""A PostgreSQL server that can be crashed and restarted, and PgBouncer in front of one."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from chaos.waiting import until
from treadle import migrate
from treadle.db.embedded import embedded_url, leave

QUICK = {"fsync": "off"}


class Server:
    """A separate embedded server. `settings` are PostgreSQL settings."""

    def __init__(
        self,
        folder: Path,
        settings: dict[str, str] = QUICK,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`environment` is for the server alone."""
        self.folder = folder
        self._settings = settings
        self._environment = environment or {}
        with _added_to_environment(self._environment):
            self.url = embedded_url(folder, settings=settings, quiet=True)
        migrate(self.url)

    def connect(self) -> Connection[Any]:
        return psycopg.connect(self.url, autocommit=True, options="-c search_path=treadle,public")

    def crash(self) -> None:
        """Shut down immediately: connections are cut, and nothing is flushed."""
        process = int((self.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGQUIT)
        until(lambda: not _alive(process))

    def come_back(self) -> None:
        """Start the server again, at the same address."""
        leave(self.folder)
        with _added_to_environment(self._environment):
            url = embedded_url(self.folder, settings=self._settings, quiet=True)
        if url != self.url:
            raise AssertionError("the server started at another address")

    def new_log(self) -> str:
        """What it has logged since it was started."""
        return (self.folder / "data" / "server.log").read_text(errors="replace")

    def answers(self) -> bool:
        return answers(self.url)

    def close(self) -> None:
        leave(self.folder)


@contextmanager
def _added_to_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """The server inherits the environment of this process."""
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


@contextmanager
def serving(settings: dict[str, str] = QUICK, *, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Start a server in a temporary folder, whose path is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="treadle-chaos-"))
    folder.chmod(0o711)
    try:
        yield Server(folder, settings, environment=environment)
    finally:
        leave(folder)
        shutil.rmtree(folder)


@contextmanager
def bouncer(url: str, folder: Path, mode: str, port: int | None = None) -> Iterator[str]:
    """Start PgBouncer in front of the server, and yield the URL for its clients."""
    parts = conninfo_to_dict(url)
    port = port or _free_port()
    # PgBouncer refuses to run as root and needs access to the server's socket, so it runs as the server's owner.
    owner = pwd.getpwuid(Path(str(parts["host"])).stat().st_uid) if os.getuid() == 0 else None
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        f"""[databases]
* = host={parts["host"]} port={parts["port"]} user={parts["user"]}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
max_client_conn = 500
"""
    )
    settings.chmod(0o644)
    with (
        (folder / "pgbouncer.log").open("w") as log,
        subprocess.Popen(
            ["pgbouncer", settings],
            stdout=log,
            stderr=log,
            user=owner.pw_uid if owner else None,
            group=owner.pw_gid if owner else None,
        ) as process,
    ):
        pooled = make_conninfo(host="127.0.0.1", port=port, user=str(parts["user"]), dbname=str(parts["dbname"]))
        try:
            until(lambda: process.poll() is None and answers(pooled), lambda: "pgbouncer does not accept connections")
            yield pooled
        finally:
            process.kill()


def answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _alive(process: int) -> bool:
    with suppress(ProcessLookupError, FileNotFoundError):
        os.kill(process, 0)
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return False
