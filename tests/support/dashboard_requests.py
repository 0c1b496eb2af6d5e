"""Sends raw requests to an ASGI application: any method, path and headers. Reads only the first piece of a stream."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlencode

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import ASGIApp, Message

from treadle.web.dashboard.routes import ProtectedEndpoint, RouteSpec
from treadle.web.dashboard.security.access import Role


class Reply(NamedTuple):
    status: int
    headers: Headers
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def protected_routes(asgi: ASGIApp) -> list[RouteSpec]:
    """The spec of every route that is served. Fails if a route was not built by `build_route`."""
    assert isinstance(asgi, Starlette)
    found = []
    for served in asgi.routes:
        assert isinstance(served, Route), f"{served} was not built by build_route"
        protected = getattr(served.endpoint, "__self__", None)
        assert isinstance(protected, ProtectedEndpoint), f"{served.path} was not built by build_route"
        assert served.methods == {protected.route.method}
        assert served.path == protected.route.path
        assert isinstance(protected.route.role, Role)
        assert bool(protected.route.summary) == (protected.route.response_model is not None), (
            "summaries are for the API"
        )
        found.append(protected.route)
    return found


async def request(
    asgi: ASGIApp,
    method: str,
    target: str,
    headers: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    **scope: Any,
) -> Reply:
    path, _, query = target.partition("?")
    sent = {"host": "queue.example", **(headers or {})}
    body = b""
    if form is not None:
        body = urlencode(form).encode()
        sent |= {"content-type": "application/x-www-form-urlencoded", "content-length": str(len(body))}
    full_scope: dict[str, Any] = {
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
    enough, started = asyncio.Event(), False
    messages: list[Message] = []

    async def receive() -> Message:
        nonlocal started
        if not started:
            started = True
            return {"type": "http.request", "body": body, "more_body": False}
        await enough.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        messages.append(message)
        if len(messages) > 1:
            enough.set()

    await asyncio.wait_for(asgi(full_scope, receive, send), 60)
    start = messages[0]
    assert start["type"] == "http.response.start"
    return Reply(
        start["status"], Headers(raw=start["headers"]), b"".join(each.get("body", b"") for each in messages[1:])
    )
