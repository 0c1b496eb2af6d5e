"""A proxy between clients and the server that delays data, drops it, cuts connections, or cuts one before a reply.

To cut a connection before a reply, it understands a part of PostgreSQL's protocol: where a message begins, and which
messages say that a statement was executed (CommandComplete) and that no transaction is open (ReadyForQuery, idle).
"""

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import psycopg
from psycopg.conninfo import make_conninfo

# Requests that precede the startup message. The server answers the first two with a single byte, not a message.
ENCRYPTION, CANCEL = (80877103, 80877104), 80877102


class Proxy:
    """Clients connect to `url`.

    `give_up_after`: seconds after which a silent connection is reset on the client's side. On a real network the
    client's kernel does this when its packets are no longer acknowledged (see docs/reliability.md), but packets to a
    proxy on the same machine always are."""

    def __init__(self, url: str, give_up_after: float | None = None) -> None:
        with psycopg.connect(url) as connection:
            self._host, self._port = connection.info.host, connection.info.port
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.url = make_conninfo(url, host="127.0.0.1", port=self._listening.getsockname()[1])
        self.delay = 0.0
        """Delay in seconds, added in each direction."""
        self.replies_lost = 0
        self._give_up_after = give_up_after
        self._tags_to_lose: list[str] = []
        self._black_hole = False
        self._silent: set[socket.socket] = set()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def go_silent(self) -> None:
        """Drop all data of the existing connections. New connections work."""
        with self._lock:
            newly_silent = self._open - self._silent
            self._silent |= newly_silent
        if self._give_up_after is not None:
            timer = threading.Timer(self._give_up_after, _give_up, [newly_silent])
            timer.daemon = True
            timer.start()

    def black_hole_everything(self, enabled: bool) -> None:
        """Drop the data of new connections too, like a network that is down. Silent connections stay silent."""
        self._black_hole = enabled
        if enabled:
            self.go_silent()

    def ignore_new_connections(self) -> None:
        """Accept new connections but never reply. Existing connections keep working."""
        self._black_hole = True

    def close_silent_connections(self) -> None:
        """Close the server's side of silent connections, as its keepalives would; else they use up max_connections."""
        with self._lock:
            for each in self._silent:
                if each.family == socket.AF_UNIX:
                    _close(each)

    def cut(self) -> None:
        """Reset all connections at the same time."""
        with self._lock:
            for each in self._open:
                _reset(each)
            self._open.clear()

    def lose_replies(self, number: int, tag: str = "") -> None:
        """Reset the connection instead of passing on the reply, for the next `number` statements that were committed.

        With a tag, such as COMMIT, only replies to statements with that tag are lost."""
        with self._lock:
            self._tags_to_lose = [tag] * number

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
                # Else a reply in two parts waits 40 ms for an acknowledgement of the first.
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._lock:
                    if self._closed:
                        client.close()
                        return
                    self._open.add(client)
                    if self._black_hole:
                        self._silent.add(client)
                        continue
                threading.Thread(target=self._connect_pair, args=(client,), daemon=True).start()

    def _connect_pair(self, client: socket.socket) -> None:
        try:
            server = self._connect()
        except OSError:  # no server is running
            self._close_pair(client)
            return
        with self._lock:
            self._open.add(server)
            closed = self._closed or client not in self._open
        if closed:  # while the server connection was being opened
            self._close_pair(client, server)
            return
        with suppress(OSError):
            if _begin(client, server):
                threading.Thread(target=self._pump, args=(client, server), daemon=True).start()
                self._pump_replies(server, client)
        self._close_pair(client, server)

    def _connect(self) -> socket.socket:
        if not self._host.startswith("/"):
            server = socket.create_connection((self._host, self._port))
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return server
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(f"{self._host}/.s.PGSQL.{self._port}")
        except OSError:
            server.close()
            raise
        return server

    def _close_pair(self, *ends: socket.socket) -> None:
        """Close both ends, unless one is silent: then neither end is told."""
        with self._lock:
            if not self._silent.intersection(ends) or self._closed:
                for each in ends:
                    self._open.discard(each)
                    _close(each)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._pass(data, source, sink)
        self._close_pair(source, sink)

    def _pump_replies(self, source: socket.socket, sink: socket.socket) -> None:
        for part, tag, idle in _replies(source):
            if tag is not None and idle and self._loses(tag):
                self.replies_lost += 1
                with self._lock:
                    self._open -= {source, sink}
                _reset(sink)
                _close(source)
                return
            self._pass(part, source, sink)

    def _pass(self, data: bytes, source: socket.socket, sink: socket.socket) -> None:
        if self.delay:
            time.sleep(self.delay)
        if source not in self._silent:
            sink.sendall(data)

    def _loses(self, tag: str) -> bool:
        with self._lock:
            if not self._tags_to_lose or tag == "ROLLBACK" or not tag.startswith(self._tags_to_lose[0]):
                return False
            self._tags_to_lose.pop()
            return True


def _begin(client: socket.socket, server: socket.socket) -> bool:
    """Pass on everything up to the startup message. Return False for a connection that is only a cancel request."""
    while True:
        head = _exactly(client, 8)
        length, code = struct.unpack("!ii", head)
        server.sendall(head + _exactly(client, length - 8))
        if code in ENCRYPTION:
            client.sendall(_exactly(server, 1))
            continue
        return bool(code != CANCEL)


def _replies(server: socket.socket) -> Iterator[tuple[bytes, str | None, bool]]:
    """Yield the server's data in parts that end with a complete message: the part, its tag, and whether it is idle.

    Everything from CommandComplete to ReadyForQuery is one part, with the tag of the statement; idle means that no
    transaction is open after it. Other parts have no tag."""
    buffered, pending, tag = b"", b"", None
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
            buffered += message
            if kind == b"Z":
                yield buffered, tag, message[5:6] == b"I"
                buffered, tag = b"", None
        if plain:
            yield plain, None, False


def _exactly(source: socket.socket, number: int) -> bytes:
    found = b""
    while len(found) < number:
        data = source.recv(number - len(found))
        if not data:
            raise ConnectionResetError("the connection was closed by the other end")
        found += data
    return found


def _give_up(silent: set[socket.socket]) -> None:
    for each in silent:
        if each.family == socket.AF_INET:
            _reset(each)


def _reset(each: socket.socket) -> None:
    """Close with a TCP reset, as a broken network does: data in transit is lost."""
    with suppress(OSError):
        if each.family == socket.AF_INET:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    _close(each, socket.SHUT_RD)


def _close(each: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    # Closing alone would not wake a thread that is waiting for data on this socket.
    with suppress(OSError):
        each.shutdown(how)
    with suppress(OSError):
        each.close()
