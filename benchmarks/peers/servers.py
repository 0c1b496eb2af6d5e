"""PostgreSQL with default settings, and Redis with its append-only file. All queues share one server of each, except in
measurements of all that a server does for a queue."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from treadle.db import embedded

CONNECTIONS = 300  # eight processes with pools of 20, and others beside them
SECONDS = 60  # limit for starting or stopping


class ServerMissing(Exception):
    pass


class Postgres:
    def __init__(self, port: int, pid: int = 0) -> None:
        self.port = port
        self.pid = pid  # of the postmaster

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str = "postgres") -> Any:
        return psycopg.connect(self.url(database), autocommit=True)

    def version(self) -> str:
        with self.connect() as connection:
            return str(connection.execute("show server_version").fetchone()[0])

    def make(self, database: str, template: str = "template0") -> str:
        """Create a database from the template. The checkpoint ensures that no earlier writes are pending."""
        with self.connect() as connection:
            connection.execute(f"drop database if exists {database} with (force)")
            connection.execute(f"create database {database} template {template}")
            connection.execute("checkpoint")
        return self.url(database)

    def clean(self) -> None:
        """Leave nothing to do for autovacuum and the next checkpoint."""
        with self.connect() as connection:
            names = connection.execute("select datname from pg_database where datallowconn").fetchall()
        # The analysis writes to pg_statistic, and reports the dead rows there when its session ends.
        for statement in ("vacuum analyze", "vacuum pg_catalog.pg_statistic"):
            for (name,) in names:
                with self.connect(name) as connection:
                    connection.execute(statement)
        with self.connect() as connection:
            connection.execute("checkpoint")

    def has(self, database: str) -> bool:
        with self.connect() as connection:
            found = connection.execute("select from pg_database where datname = %s", [database]).fetchone()
        return found is not None


class Redis:
    def __init__(self, port: int, pid: int = 0) -> None:
        self.port = port
        self.pid = pid

    def make(self, database: int) -> str:
        """Empty a database and return its URL. Redis has 16 databases, identified by number."""
        self.ask("-n", str(database), "flushdb")
        return f"redis://127.0.0.1:{self.port}/{database}"

    def ask(self, *words: str) -> str:
        command = ["redis-cli", "-p", str(self.port), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def info(self, section: str, name: str) -> str:
        lines = self.ask("info", section).splitlines()
        return next(line.split(":")[1] for line in lines if line.startswith(f"{name}:"))

    def version(self) -> str:
        return self.info("server", "redis_version")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def postgres(settings: dict[str, str] | None = None) -> Iterator[Postgres]:
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    folder.chmod(0o711)
    # Treadle's embedded server, but over TCP: not every driver accepts a socket path as host.
    server = embedded._find_server(folder)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    port = free_port()
    options: dict[str, Any] = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": ""}
    options |= {"max_connections": CONNECTIONS} | (settings or {})
    try:
        embedded._initialize(server, lock)
        process = subprocess.Popen(
            [
                server.binaries / "postgres",
                "-D",
                server.data,
                *(f"--{name}={value}" for name, value in options.items()),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=server.account.user if server.account else None,
            group=server.account.group if server.account else None,
            extra_groups=[] if server.account else None,
            start_new_session=True,
        )
        try:
            _await_answer(lambda: psycopg.connect(Postgres(port).url("postgres")).close(), psycopg.Error)
            yield Postgres(port, process.pid)
        finally:
            process.send_signal(signal.SIGINT)  # a fast shutdown
            process.wait(SECONDS)
    finally:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)
        if server.home != folder:
            shutil.rmtree(server.home, ignore_errors=True)


@contextmanager
def redis() -> Iterator[Redis]:
    if not shutil.which("redis-server"):
        raise ServerMissing("redis-server is not installed; on Debian and Ubuntu: apt-get install redis-server")
    folder = tempfile.mkdtemp(prefix="bench-")
    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--appendonly", "yes"]
    process = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL, start_new_session=True)
    found = Redis(port, process.pid)
    try:
        _await_answer(lambda: found.ask("ping"), subprocess.CalledProcessError)
        yield found
    finally:
        process.terminate()
        process.wait(SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


def _await_answer(call: Any, refused: type[Exception]) -> None:
    end = time.monotonic() + SECONDS
    while True:
        try:
            call()
        except refused:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return
