"""Between clients and the server: a network that is slow, falls silent, breaks, or breaks just when an answer is due.

It knows as much of PostgreSQL's protocol as it needs for the last: where a message begins, and which ones say that a
statement was carried out (CommandComplete) and that nothing is left open (ReadyForQuery, idle).
"""

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import psycopg
from psycopg.conninfo import make_conninfo

# Requests before the protocol proper; the first two are answered by one byte that is no message.
ENCRYPTION, CANCEL = (80877103, 80877104), 80877102


class Proxy:
    """`url` leads through it.

    `patience`: seconds after which a client's kernel gives up a connection that has fallen silent. It does by itself
    where nothing is acknowledged any more (see docs/reliability.md), but what is sent to a proxy always is."""

    def __init__(self, url: str, patience: float | None = None) -> None:
        with psycopg.connect(url) as connection:
            self._host, self._port = connection.info.host, connection.info.port
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.url = make_conninfo(url, host="127.0.0.1", port=self._listening.getsockname()[1])
        self.delay = 0.0
        """Seconds that everything takes longer, each way."""
        self.lost = 0
        """How many answers were swallowed."""
        self._patience = patience
        self._swallow: list[str] = []
        self._deaf = False
        self._silent: set[socket.socket] = set()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def go_silent(self) -> None:
        """For all connections there are; new ones are fine."""
        with self._lock:
            fallen = self._open - self._silent
            self._silent |= fallen
        if self._patience is not None:
            timer = threading.Timer(self._patience, _give_up, [fallen])
            timer.daemon = True
            timer.start()

    def swallow_everything(self, deaf: bool) -> None:
        """New connections, too: a network that is gone. What fell silent stays so."""
        self._deaf = deaf
        if deaf:
            self.go_silent()

    def ignore_new_ones(self) -> None:
        """They can connect, and get no answer; those there are go on."""
        self._deaf = True

    def give_up_the_silent(self) -> None:
        """As a server does, whose keepalives get no answer: else each would take one of its connections for ever."""
        with self._lock:
            for each in self._silent:
                if each.family == socket.AF_UNIX:
                    _hang_up(each)

    def cut(self) -> None:
        """All connections, at once and without a word."""
        with self._lock:
            for each in self._open:
                _reset(each)
            self._open.clear()

    def lose_answers(self, number: int, tag: str = "") -> None:
        """The next so many statements are carried out and committed; instead of the answer the connection breaks.
        With a tag, such as COMMIT, only those."""
        with self._lock:
            self._swallow = [tag] * number

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
                    if self._closed:
                        client.close()
                        return
                    self._open.add(client)
                    if self._deaf:
                        self._silent.add(client)
                        continue
                threading.Thread(target=self._join, args=(client,), daemon=True).start()

    def _join(self, client: socket.socket) -> None:
        try:
            server = self._connect()
        except OSError:  # there is none now
            self._part(client)
            return
        with self._lock:
            self._open.add(server)
            closed = self._closed or client not in self._open
        if closed:  # while it was accepted
            self._part(client, server)
            return
        with suppress(OSError):
            if _begin(client, server):
                threading.Thread(target=self._pump, args=(client, server), daemon=True).start()
                self._pump_answers(server, client)
        self._part(client, server)

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

    def _part(self, *ends: socket.socket) -> None:
        """Both ends, unless one has fallen silent: then nobody is told."""
        with self._lock:
            if not self._silent.intersection(ends) or self._closed:
                for each in ends:
                    self._open.discard(each)
                    _hang_up(each)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._pass(data, source, sink)
        self._part(source, sink)

    def _pump_answers(self, source: socket.socket, sink: socket.socket) -> None:
        for part, tag, idle in _answers(source):
            if tag is not None and idle and self._takes(tag):
                self.lost += 1
                with self._lock:
                    self._open -= {source, sink}
                _reset(sink)
                _hang_up(source)
                return
            self._pass(part, source, sink)

    def _pass(self, data: bytes, source: socket.socket, sink: socket.socket) -> None:
        if self.delay:
            time.sleep(self.delay)
        if source not in self._silent:
            sink.sendall(data)

    def _takes(self, tag: str) -> bool:
        with self._lock:
            if not self._swallow or tag == "ROLLBACK" or not tag.startswith(self._swallow[0]):
                return False
            self._swallow.pop()
            return True


def _begin(client: socket.socket, server: socket.socket) -> bool:
    """Up to the first message that is framed; False for a connection that only asks to cancel."""
    while True:
        head = _exactly(client, 8)
        length, code = struct.unpack("!ii", head)
        server.sendall(head + _exactly(client, length - 8))
        if code in ENCRYPTION:
            client.sendall(_exactly(server, 1))
            continue
        return bool(code != CANCEL)


def _answers(server: socket.socket) -> Iterator[tuple[bytes, str | None, bool]]:
    """What the server says, in parts that end where a message does. From the word that a statement was carried out to
    the one that the server is ready is one part, with what it was and whether nothing is left open after it."""
    held, pending, tag = b"", b"", None
    while data := server.recv(65536):
        pending += data
        plain = b""
        while len(pending) >= 5 and len(pending) > (length := struct.unpack_from("!i", pending, 1)[0]):
            message, pending = pending[: length + 1], pending[length + 1 :]
            kind = message[:1]
            if kind == b"C":
                tag = message[5:-1].decode()
            if tag is None:
                plain += message
                continue
            if plain:
                yield plain, None, False
                plain = b""
            held += message
            if kind == b"Z":
                yield held, tag, message[5:6] == b"I"
                held, tag = b"", None
        if plain:
            yield plain, None, False


def _exactly(source: socket.socket, number: int) -> bytes:
    found = b""
    while len(found) < number:
        data = source.recv(number - len(found))
        if not data:
            raise ConnectionResetError("the other end is gone")
        found += data
    return found


def _give_up(fallen: set[socket.socket]) -> None:
    for each in fallen:
        if each.family == socket.AF_INET:
            _reset(each)


def _reset(each: socket.socket) -> None:
    """As a network does that breaks: what is under way is lost."""
    with suppress(OSError):
        if each.family == socket.AF_INET:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    _hang_up(each, socket.SHUT_RD)


def _hang_up(each: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    # A close alone would not wake the thread that waits for data on it.
    with suppress(OSError):
        each.shutdown(how)
    with suppress(OSError):
        each.close()
