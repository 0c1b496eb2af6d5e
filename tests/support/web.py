"""A real web server in a thread, and a reader of server-sent events that goes by the letter of the standard."""

import asyncio
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
import uvicorn
from starlette.types import ASGIApp

from tests.support.workers import until


class Message(NamedTuple):
    name: str
    data: Any
    id: str | None
    """Of this message itself."""


class Server:
    """Started and stopped as often as one likes, always at the same address."""

    def __init__(self, asgi: ASGIApp) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._asgi = asgi
        self.loop: asyncio.AbstractEventLoop | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        config = uvicorn.Config(
            self._asgi, port=self.port, log_level="warning", lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        until(lambda: self._server.started)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive()

    def tasks(self) -> int:
        """How many tasks there are for requests."""
        assert self.loop is not None
        asked = asyncio.run_coroutine_threadsafe(self._count(), self.loop)
        return asked.result(30)

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        await self._server.serve()

    async def _count(self) -> int:
        # Those of the database's pool, and this one and the server's own, are always there.
        return sum(
            any(word in repr(task.get_coro()) for word in ("run_asgi", "_send", "_left", "anext"))
            for task in asyncio.all_tasks()
        )


@contextmanager
def serving(asgi: ASGIApp) -> Iterator[Server]:
    server = Server(asgi)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def messages(response: httpx.Response, comment: Callable[[str], None] = lambda _: None) -> Iterator[Message]:
    """As section 9.2.6 of the HTML standard has it."""
    data: list[str] = []
    buffer, name, given = "", "", None
    for some in response.iter_text():
        buffer += some
        while (found := re.search(r"\r\n|\n|\r", buffer)) is not None:
            line, buffer = buffer[: found.start()], buffer[found.end() :]
            if not line:
                if data:
                    yield Message(name or "message", json.loads("\n".join(data)), given)
                name, data, given = "", [], None
            elif line.startswith(":"):
                comment(line)
            else:
                field, _, value = line.partition(":")
                value = value.removeprefix(" ")
                match field:
                    case "event":
                        name = value
                    case "data":
                        data.append(value)
                    case "id":
                        given = value
                    case "retry":
                        assert value.isdigit()
                    case _:
                        raise AssertionError(f"no field of the standard: {line!r}")


def read(server: Server, path: str, **headers: str) -> list[Message]:
    """All there is, up to the end."""
    with httpx.stream("GET", server.url + path, headers=headers, timeout=60) as response:
        assert response.status_code == 200
        return list(messages(response))


def take(server: Server, path: str, number: int, **headers: str) -> list[Message]:
    """The first of them, of a stream that may have no end."""
    with httpx.stream("GET", server.url + path, headers=headers, timeout=60) as response:
        coming = messages(response)
        return [next(coming) for _ in range(number)]


def told(found: list[Message]) -> list[tuple[str, int | None]]:
    """The events among them: names and numbers."""
    return [(each.name, each.data["number"]) for each in found if each.id is not None]
