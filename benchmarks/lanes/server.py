"""A PostgreSQL server of its own for these benchmarks, and what its processes have used of the processor."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from benchmarks import processor
from treadle import migrate
from treadle.db.embedded import embedded_url, leave

SETTINGS = {"max_connections": "200", "max_prepared_transactions": "2", "wal_level": "logical"}


@dataclass
class Server:
    url: str
    name: str = "lanes"
    _database: str = field(default="", init=False)
    _number: int = field(default=0, init=False)

    def fresh(self) -> str:
        """The URL of a new, migrated database. The one before is dropped, so that autovacuum leaves it alone."""
        self.close()
        self._number += 1
        self._database = f"{self.name}_{self._number}"
        with connect(self.url) as connection:
            connection.execute(f"create database {self._database}".encode())
        url = make_conninfo(self.url, dbname=self._database)
        migrate(url)
        return url

    def close(self) -> None:
        if self._database:
            with connect(self.url) as connection:
                connection.execute(f"drop database {self._database} with (force)".encode())
            self._database = ""


def cpu_seconds(url: str) -> float:
    """Seconds of processor time that all processes of the server have used. It must run on this machine."""
    with psycopg.connect(url) as connection:
        found = connection.execute("show data_directory").fetchone()
    assert found
    return processor.cpu_seconds([int(Path(found[0], "postmaster.pid").read_text().split()[0])])


@contextmanager
def running_server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="treadle-lanes-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o711)
        url = embedded_url(folder / "server", settings=SETTINGS, quiet=True)
        try:
            yield Server(url)
        finally:
            leave(folder / "server")


def connect(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True)
