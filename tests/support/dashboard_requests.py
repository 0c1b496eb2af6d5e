"""Requests by hand, straight to an ASGI application: any method, any path, any header; a stream is left after its
first piece."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlencode

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import ASGIApp, Message

from treadle.web.dashboard.access import Role
from treadle.web.dashboard.routes import Guarded, Rule


class Answered(NamedTuple):
    status: int
    headers: Headers
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def guarded(asgi: ASGIApp) -> list[Rule]:
    """Of every route that is served; one that the gate did not make is none of ours."""
    assert isinstance(asgi, Starlette)
    found = []
    for route in asgi.routes:
        assert isinstance(route, Route), f"{route} is not made by the gate"
        guard = getattr(route.endpoint, "__self__", None)
        assert isinstance(guard, Guarded), f"{route.path} is not made by the gate"
        assert route.methods == {guard.rule.method}
        assert route.path == guard.rule.path
        assert isinstance(guard.rule.role, Role)
        assert guard.rule.summary
        found.append(guard.rule)
    return found


async def ask(
    asgi: ASGIApp,
    method: str,
    target: str,
    headers: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    **scope: Any,
) -> Answered:
    path, _, query = target.partition("?")
    sent = {"host": "queue.example", **(headers or {})}
    body = b""
    if form is not None:
        body = urlencode(form).encode()
        sent |= {"content-type": "application/x-www-form-urlencoded", "content-length": str(len(body))}
    asked: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()],
        "client": ("192.0.2.1", 1),
        "server": ("queue.example", 80),
        **scope,
    }
    enough, begun = asyncio.Event(), False
    came: list[Message] = []

    async def receive() -> Message:
        nonlocal begun
        if not begun:
            begun = True
            return {"type": "http.request", "body": body, "more_body": False}
        await enough.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        came.append(message)
        if len(came) > 1:
            enough.set()

    await asyncio.wait_for(asgi(asked, receive, send), 60)
    start = came[0]
    assert start["type"] == "http.response.start"
    return Answered(
        start["status"], Headers(raw=start["headers"]), b"".join(each.get("body", b"") for each in came[1:])
    )
