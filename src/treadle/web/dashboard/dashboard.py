"""The dashboard as an ASGI application: to be mounted anywhere, or served by `treadle dashboard`."""

import logging
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treadle.app import Treadle
from treadle.db.database import DatabaseError
from treadle.web.dashboard import assets, entry, pages
from treadle.web.dashboard.access import Access, Authorize
from treadle.web.dashboard.gate import Rule, route
from treadle.web.dashboard.render import HEADERS
from treadle.words.errors import InvalidArgument, JobNotFound, TreadleError, WrongStatus

log = logging.getLogger("treadle")


def rules(app: Treadle, access: Access) -> list[Rule]:
    """All that there is, each with the role that it asks for."""
    return [*assets.rules(), *entry.rules(access), *pages.rules(app)]


def dashboard_app(app: Treadle, *, authorize: Authorize | None = None) -> Starlette:
    """For an ASGI application: `mount("/queue", dashboard_app(app, authorize=…))`.

    `authorize` says who a visitor is: a function of the request (async or not) that returns a Visitor, or None for
    nobody. Left out, visitors need a secret: TREADLE_DASHBOARD_VIEWER or TREADLE_DASHBOARD_OPERATOR of the environment;
    if there is none, nobody is let in.
    """
    access = Access.from_environment()
    return Starlette(
        routes=[route(rule, authorize or access) for rule in rules(app, access)],
        middleware=[Middleware(_Headers)],
        exception_handlers={
            HTTPException: _refused,
            InvalidArgument: _refusal(400),
            JobNotFound: _refusal(404),
            WrongStatus: _refusal(409),
            TreadleError: _refusal(503, "the queue cannot be reached"),
            DatabaseError: _refusal(503, "the queue cannot be reached"),
        },
    )


class _Headers:
    """On whatever is answered, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in given),
                ]
            await send(message)

        await self._app(scope, receive, sending)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


def _refusal(status: int, said: str | None = None) -> Callable[[Request, Exception], Response]:
    def refuse(request: Request, error: Exception) -> Response:
        if said is not None:
            log.error("the dashboard cannot answer: %s", error)
        return JSONResponse({"error": said or str(error)}, status)

    return refuse
