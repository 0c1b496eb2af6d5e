"""A response that goes on: frames as they come, a sign of life between them, and an end when the client is gone."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from treadle.web.frames import BEGINNING, KEEP_ALIVE

KEEP_ALIVE_SECONDS = 15.0
# A client that takes nothing for so long is let go; it comes back by itself if it is still there.
SEND_SECONDS = 30.0

HEADERS = {
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # nginx would keep it all to itself
}


class EventStream(Response):
    """Owns the frames: they are closed however it ends."""

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncGenerator[bytes, None]) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._frames = frames
        self.seconds: float | None = None
        """When it has gone on for so long, it ends with the next frame; a browser comes back by itself."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Whether the client is gone can be read, or is found out when sending: which of them depends on the server.
        leaving = asyncio.ensure_future(_left(receive))
        sending = asyncio.ensure_future(self._send(send))
        try:
            await asyncio.wait({leaving, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            sending.cancel()
            # One that waits on the database is heard out: until then its connection is not back in the pool.
            _, sent = await asyncio.gather(leaving, sending, return_exceptions=True)
        if isinstance(sent, Exception) and not isinstance(sent, OSError):  # TimeoutError is one
            raise sent

    async def _send(self, send: Send) -> None:
        began = time.monotonic()
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await _send_some(send, BEGINNING)
            async with aclosing(_kept_alive(self._frames)) as frames:
                async for some in frames:
                    await _send_some(send, some)
                    if self.seconds is not None and time.monotonic() - began > self.seconds:
                        break
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self._frames.aclose()


async def _send_some(send: Send, body: bytes) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _kept_alive(frames: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The frames, and a comment whenever none came for a while."""
    coming: asyncio.Future[bytes] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(frames))
            done, _ = await asyncio.wait({coming}, timeout=KEEP_ALIVE_SECONDS)
            if not done:
                yield KEEP_ALIVE
                continue
            try:
                some = coming.result()
            except StopAsyncIteration:
                return
            coming = None
            yield some
    finally:
        if coming is not None and not coming.done():
            coming.cancel()
            with suppress(asyncio.CancelledError):
                await coming
