"""Server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html

A frame consists of lines `field: value` and ends with an empty line. JSON contains no line breaks. Event names may,
because they can be written to the table with SQL. An EventStream sends frames until they end or the client disconnects.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from treadle.db.queries.snapshots import JobState
from treadle.words.payload import decode
from treadle.words.record import RecordedEvent

KEEP_ALIVE_SECONDS = 15.0
# A client that accepts no data for this long is disconnected. A browser that is still there reconnects.
SEND_SECONDS = 30.0

HEADERS = {
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # otherwise nginx buffers the response
}


_LINE_BREAKS = re.compile(r"[\r\n\0]+")

# Tells the browser to reconnect 2 seconds after the connection is lost.
PREAMBLE = b"retry: 2000\n\n"
KEEP_ALIVE = b": keep-alive\n\n"


def frame(name: str, data: dict[str, Any], cursor: str | None = None) -> bytes:
    """A browser that reconnects sends the last cursor that it received in the header Last-Event-ID."""
    head = f"id: {cursor}\n" if cursor is not None else ""
    return f"{head}event: {_LINE_BREAKS.sub(' ', name)}\ndata: {to_json(data).decode()}\n\n".encode()


def event_frame(event: RecordedEvent, *, with_job: bool = False) -> bytes:
    job = {"job_id": event.job_id, "job_type": event.job_type} if with_job else {}
    data = {**job, "number": event.number, "at": event.at, "attempt": event.attempt, "data": event.data}
    return frame(event.name, data, event.cursor)


def progress_frame(job: JobState) -> bytes:
    pace = decode(job.pace) if job.pace else dict.fromkeys(("done", "total", "rate", "left"))
    return frame("progress", {"status": job.status, "percent": job.progress, "stage": job.stage, **pace})


def end_frame(status: str | None) -> bytes:
    return frame("end", {"status": status})


class EventStream(Response):
    """Sends the frames of a generator, with a comment whenever there was none for a while, and closes the generator."""

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncGenerator[bytes, None]) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._frames = frames
        self.max_seconds: float | None = None
        """The response ends with the first frame after this time. A browser reconnects."""
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Some servers report a disconnect through receive(), others through an error of send().
        disconnect = asyncio.ensure_future(_wait_for_disconnect(receive))
        sending = asyncio.ensure_future(self._send(send))
        stopped = False
        try:
            await asyncio.wait({disconnect, sending}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if not self._started:
                raise
            stopped = True
        finally:
            disconnect.cancel()
            sending.cancel()
            # Wait for the end of a running query: before that, its connection is not back in the pool.
            _, result = await asyncio.gather(disconnect, sending, return_exceptions=True)
        if isinstance(result, Exception) and not isinstance(result, OSError):  # includes TimeoutError
            raise result
        if stopped:
            await _end_quietly(send)

    async def _send(self, send: Send) -> None:
        started_at = time.monotonic()
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            self._started = True
            await _send_body(send, PREAMBLE)
            async with aclosing(_with_keep_alive(self._frames)) as frames:
                async for frame in frames:
                    await _send_body(send, frame)
                    if self.max_seconds is not None and time.monotonic() - started_at > self.max_seconds:
                        break
            await _send_end(send)
        finally:
            await self._frames.aclose()


async def _send_body(send: Send, body: bytes) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def _send_end(send: Send) -> None:
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _end_quietly(send: Send) -> None:
    """Complete a response that was cancelled: a server that stops cancels those that still run, and would log a long
    traceback for each."""
    with suppress(OSError):  # includes TimeoutError
        async with asyncio.timeout(1):
            await _send_end(send)
    if task := asyncio.current_task():
        task.uncancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _with_keep_alive(frames: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The frames, and a comment whenever there was none for KEEP_ALIVE_SECONDS."""
    pending: asyncio.Future[bytes] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(anext(frames))
            done, _ = await asyncio.wait({pending}, timeout=KEEP_ALIVE_SECONDS)
            if not done:
                yield KEEP_ALIVE
                continue
            try:
                frame = pending.result()
            except StopAsyncIteration:
                return
            pending = None
            yield frame
    finally:
        if pending is not None and not pending.done():
            pending.cancel()
            with suppress(asyncio.CancelledError):
                await pending
