"""What is answered when something cannot be: a sentence, as JSON or as a page; and the headers of every answer."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treadle.db.database import DatabaseError
from treadle.web.dashboard.access import NOBODY
from treadle.web.dashboard.render import HEADERS, page
from treadle.web.dashboard.routes import ASKED, Asked
from treadle.words.errors import (
    InvalidArgument,
    InvalidPayload,
    JobNotFound,
    NotAllowed,
    TooSlow,
    TreadleError,
    WrongStatus,
)

_TITLES = {
    401: "Who are you?",
    403: "You may not do this",
    404: "There is no such thing here",
    503: "The queue cannot be reached",
}

log = logging.getLogger("treadle")


def refused(request: Request, status: int, said: str, headers: Mapping[str, str] | None = None) -> Response:
    """A page for who wants one, JSON for everybody else."""
    if "text/html" in request.headers.get("accept", "") and not _is_api(request):
        asked = request.scope.get(ASKED) or Asked(request, NOBODY, "", {})
        answer: Response = page(
            asked, "error.html", status, title=_TITLES.get(status, "This cannot be done"), message=said
        )
        answer.headers.update(headers or {})
        return answer
    return JSONResponse({"error": said}, status, headers)


class Shield:
    """Around everything: headers on whatever is answered; what nobody foresaw is logged, and answered without a word
    of it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in given),
                ]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception:
            if scope["type"] != "http" or started:
                raise
            log.exception("the dashboard cannot answer %s %r", scope["method"], scope["path"])
            answer = JSONResponse({"error": "something went wrong here; the log of the server says what"}, 500)
            await answer(scope, receive, sending)


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker
    return refused(request, error.status_code, error.detail, error.headers)


def _said(status: int, said: str | None = None) -> Callable[[Request, Exception], Response]:
    def refuse(request: Request, error: Exception) -> Response:
        if said is not None:
            # What is wrong with the database is for the log, not for the visitor.
            log.error("the dashboard cannot answer: %s", error)
        return refused(request, status, said or str(error))

    return refuse


def _is_api(request: Request) -> bool:
    path: str = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return path.startswith("/api/")


HANDLERS: Mapping[Any, Callable[[Request, Exception], Response]] = {
    HTTPException: _http,
    InvalidArgument: _said(400),
    InvalidPayload: _said(400),
    JobNotFound: _said(404),
    WrongStatus: _said(409),
    TooSlow: _said(503),
    NotAllowed: _said(503, "the dashboard's database user lacks a right; the log of the server says which"),
    TreadleError: _said(503, "the queue cannot be reached"),
    DatabaseError: _said(503, "the queue cannot be reached"),
}
