"""A database that can be taken away: a server that may be shot, and a network that falls silent."""

import os
import signal
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from tests.workers import until
from treadle import migrate
from treadle.db.embedded import embedded_url, leave


class Server:
    """A PostgreSQL of the test's own, which may be shot."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.url = embedded_url(folder, settings={"fsync": "off"})
        migrate(self.url)

    def connect(self) -> Connection[Any]:
        return psycopg.connect(self.url, autocommit=True, options="-c search_path=treadle,public")

    def crash(self) -> None:
        """Immediate shutdown: connections are cut, nothing is flushed."""
        process = int((self._folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        os.kill(process, signal.SIGQUIT)
        until(lambda: not _alive(process))

    def come_back(self) -> None:
        leave(self._folder)
        assert embedded_url(self._folder, settings={"fsync": "off"}) == self.url


def _alive(process: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(process, 0)
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return False


class Proxy:
    """Between a client and the server: can go silent, as a network does that loses a host."""

    def __init__(self, url: str) -> None:
        with psycopg.connect(url) as connection:
            self._host, self._port = connection.info.host, connection.info.port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = make_conninfo(url, host="127.0.0.1", port=self._listening.getsockname()[1])
        self._silent: set[socket.socket] = set()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def go_silent(self) -> None:
        """For all connections there are; new ones are fine."""
        with self._lock:
            self._silent |= self._open

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._listening.close()
            for each in self._open:
                each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                with self._lock:
                    self._open.add(client)
                    server = self._connect()
                    self._open.add(server)
                    if self._closed:  # while it was accepted
                        client.close()
                        server.close()
                        return
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _connect(self) -> socket.socket:
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port))
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(f"{self._host}/.s.PGSQL.{self._port}")
        except OSError:
            server.close()
            raise
        return server

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if source not in self._silent:
                    sink.sendall(data)
            if source not in self._silent:
                sink.close()
