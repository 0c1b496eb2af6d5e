"""Clients of the event streams that disconnect or stop reading: the server releases everything."""

import asyncio
import socket
from collections.abc import AsyncGenerator

import httpx
import pytest
from starlette.types import Message as Sent

from tests.support.web import Message, Server, messages, names_and_numbers, take
from tests.support.workers import until
from treadle import JobQueue, JobRow, Treadle
from treadle.web import stream
from treadle.web.stream import EventStream


def wait_until_released(app: Treadle, server: Server) -> None:
    until(
        lambda: not app.watch.until_changed.futures and not app.watch.until_finished.futures,
        lambda: app.watch.until_changed.futures,
    )
    until(lambda: server.tasks() == 0, server.tasks)


def read_until(server: Server, job: JobRow, number: int) -> list[Message]:
    found: list[Message] = []
    with httpx.stream("GET", f"{server.url}/jobs/{job.id}/events", timeout=60) as response:
        for each in messages(response):
            found.append(each)
            if each.id and each.data["number"] == number:
                break
    return found


def test_a_disconnected_client_leaves_nothing_behind(
    app: Treadle, server: Server, queue: JobQueue, job: JobRow
) -> None:
    for path in (f"/jobs/{job.id}/events", "/events"):
        queue.event(job, "one")
        take(server, path, 1)
        with httpx.stream("GET", server.url + path, timeout=60) as response:
            coming = messages(response)
            next(coming)
            until(lambda: app.watch.until_changed.futures)
            assert server.tasks() > 0
        wait_until_released(app, server)


def test_a_client_that_stops_reading_is_disconnected(
    app: Treadle, server: Server, queue: JobQueue, job: JobRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "SEND_SECONDS", 0.3)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        client.sendall(f"GET /jobs/{job.id}/events HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        until(lambda: app.watch.until_changed.futures)
        for _ in range(120):
            queue.event(job, "large", text="x" * 60_000)
        wait_until_released(app, server)
    assert names_and_numbers(read_until(server, job, 120))[-1] == ("large", 120)


def test_the_frames_are_closed_when_the_client_disconnects_during_a_send() -> None:
    closed: list[bool] = []

    async def generate() -> AsyncGenerator[bytes, None]:
        try:
            yield b": one\n\n"
        finally:
            closed.append(True)

    async def main() -> None:
        blocked = asyncio.Event()

        async def send(message: Sent) -> None:
            if message.get("body") == b": one\n\n":
                blocked.set()
                await asyncio.Event().wait()

        async def receive() -> Sent:
            await blocked.wait()
            return {"type": "http.disconnect"}

        frames = generate()  # a reference, so that garbage collection does not close it
        await EventStream(frames)({"type": "http"}, receive, send)
        assert closed == [True]

    asyncio.run(main())


def test_a_stream_that_a_stopping_server_cancels_is_completed() -> None:
    """Otherwise the server logs a traceback for each of them."""
    sent: list[Sent] = []

    async def generate() -> AsyncGenerator[bytes, None]:
        yield b": one\n\n"
        await asyncio.Event().wait()

    async def main() -> None:
        first = asyncio.Event()

        async def send(message: Sent) -> None:
            sent.append(message)
            if message.get("body") == b": one\n\n":
                first.set()

        async def receive() -> Sent:
            await asyncio.Event().wait()
            raise AssertionError

        task = asyncio.create_task(EventStream(generate())({"type": "http"}, receive, send))
        await first.wait()
        task.cancel()
        await task
        assert not task.cancelling()

    asyncio.run(main())
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
