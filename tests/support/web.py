"""A real web server in a thread, and a parser of server-sent events that follows the standard strictly."""

import asyncio
import json
import re
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager
from typing import Any, NamedTuple, TypeVar

import httpx
import uvicorn
from starlette.types import ASGIApp

from tests.support.workers import until

Update = TypeVar("Update")


class Message(NamedTuple):
    name: str
    data: Any
    id: str | None
    """None if this message itself has no id."""


class Server:
    """Can be started and stopped repeatedly, always at the same address."""

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
        """The number of tasks that serve requests."""
        assert self.loop is not None
        future = asyncio.run_coroutine_threadsafe(self._count(), self.loop)
        return future.result(30)

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        await self._server.serve()

    async def _count(self) -> int:
        # There are always others: of the database pool, of the server itself, and this one.
        return sum(
            any(word in repr(task.get_coro()) for word in ("run_asgi", "_send", "_wait_for_disconnect", "anext"))
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
    """Parses a stream as described in section 9.2.6 of the HTML standard."""
    data: list[str] = []
    buffer, name, event_id = "", "", None
    for text in response.iter_text():
        buffer += text
        while (found := re.search(r"\r\n|\n|\r", buffer)) is not None:
            line, buffer = buffer[: found.start()], buffer[found.end() :]
            if not line:
                if data:
                    yield Message(name or "message", json.loads("\n".join(data)), event_id)
                name, data, event_id = "", [], None
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
                        event_id = value
                    case "retry":
                        assert value.isdigit()
                    case _:
                        raise AssertionError(f"not a field of the standard: {line!r}")


def read(server: Server, path: str, **headers: str) -> list[Message]:
    """All messages, until the stream ends."""
    with httpx.stream("GET", server.url + path, headers=headers, timeout=60) as response:
        assert response.status_code == 200
        return list(messages(response))


def take(server: Server, path: str, number: int, **headers: str) -> list[Message]:
    """The first messages of a stream that may not end."""
    with httpx.stream("GET", server.url + path, headers=headers, timeout=60) as response:
        coming = messages(response)
        return [next(coming) for _ in range(number)]


def names_and_numbers(found: list[Message]) -> list[tuple[str, int | None]]:
    """The names and numbers of those messages that are events."""
    return [(each.name, each.data["number"]) for each in found if each.id is not None]


async def first(stack: AsyncExitStack, updates: AsyncGenerator[Update, None]) -> Update:
    """The first update; the stream stays open."""
    await stack.enter_async_context(aclosing(updates))
    return await anext(updates)
