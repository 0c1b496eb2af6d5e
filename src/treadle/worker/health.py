"""A small HTTP server for probes. It answers GET and HEAD on fixed paths, and nothing that a client does hurts it: a
request is limited in size and time, there are few connections at once, and each is closed after its answer.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple, TypeAlias

from treadle.text.log import log

# How long a client may take to send its request, and to receive the answer.
CLIENT_SECONDS = 5.0
# Less than the 10 seconds that Prometheus waits.
ANSWER_SECONDS = 8.0
REQUEST_BYTES = 8192
CONNECTIONS = 64


class Answer(NamedTuple):
    status: int
    body: str
    content_type: str = "text/plain; charset=utf-8"


Handler: TypeAlias = Callable[[], Awaitable[Answer]]


class HealthServer:
    """`routes` maps each path to the function that answers it."""

    def __init__(self, routes: Mapping[str, Handler]) -> None:
        self._routes = routes
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.StreamWriter, None] = {}  # in the order of their beginning

    async def start(self, host: str | None, port: int) -> int:
        """Listen, on all addresses if there is no host. Returns the port. Raises OSError if it is in use."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=REQUEST_BYTES)
        ports: list[int] = [each.getsockname()[1] for each in self._server.sockets]
        if len(set(ports)) == 1:
            return ports[0]
        # Port 0 is another port for each address.
        self._server.close()
        return await self.start(host, ports[0])

    def close(self) -> None:
        """Stop listening. Connections that are open end by themselves."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = None
        if len(self._open) > CONNECTIONS:
            # The oldest one, so that clients that keep connections open do not keep a probe out.
            next(iter(self._open)).transport.abort()
        try:
            with contextlib.suppress(OSError, TimeoutError):
                await self._exchange(reader, writer)
        finally:
            self._open.pop(writer, None)
            # Not close(), which would wait until the client has received what is left.
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head_only = False
        try:
            async with asyncio.timeout(CLIENT_SECONDS):
                request = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:  # the client has gone
            return
        except asyncio.LimitOverrunError:
            answer = Answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request is too large\n")
        else:
            words = request.partition(b"\r\n")[0].decode("latin-1").split(" ")
            head_only = words[0] == "HEAD"
            answer = await self._answer(words)
        body = answer.body.encode()
        head = (
            f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n"
            f"Content-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(body)}\r\n"
            "Cache-Control: no-store\r\n"
            "Connection: close\r\n\r\n"
        )
        writer.write(head.encode() + (b"" if head_only else body))
        async with asyncio.timeout(CLIENT_SECONDS):
            await writer.drain()
            writer.write_eof()
            # Until the client closes: aborting at once could take back what it has not received yet.
            while await reader.read(REQUEST_BYTES):
                pass

    async def _answer(self, words: list[str]) -> Answer:
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return Answer(HTTPStatus.BAD_REQUEST, "expected an HTTP request\n")
        if words[0] not in ("GET", "HEAD"):
            return Answer(HTTPStatus.METHOD_NOT_ALLOWED, "expected GET or HEAD\n")
        handler = self._routes.get(words[1].partition("?")[0])
        if handler is None:
            return Answer(HTTPStatus.NOT_FOUND, f"expected one of {', '.join(self._routes)}\n")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await handler()
        except TimeoutError:
            return Answer(HTTPStatus.SERVICE_UNAVAILABLE, "the answer took too long\n")
        except Exception:
            log.exception("a request of %s failed", words[1][:100])
            return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, "the answer failed; see the log of the worker\n")
