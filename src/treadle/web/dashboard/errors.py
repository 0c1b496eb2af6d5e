"""Error responses, as JSON or as a page, and the security headers of every response."""

from collections.abc import Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treadle.db.database import DatabaseError
from treadle.text.log import log
from treadle.text.masking import masked
from treadle.web.dashboard.pages.formatting import sentence
from treadle.web.dashboard.pages.rendering import HEADERS, page
from treadle.web.dashboard.routes import CONTEXT_KEY, SAFE_METHODS, Context
from treadle.web.dashboard.security.access import NOBODY
from treadle.words.errors import (
    ActRepeated,
    DatabaseUnreachable,
    InvalidArgument,
    InvalidPayload,
    JobLocked,
    JobNotFound,
    NotAllowed,
    TableLocked,
    TooSlow,
    TreadleError,
    UnknownErrorGroup,
    UnknownLimit,
    UnknownName,
    UnknownSchedule,
    UnknownSignal,
    UnknownWorker,
    WrongStatus,
)

_TITLES = {
    400: "Invalid request",
    401: "Sign in required",
    403: "Access denied",
    404: "Not found",
    405: "Method not allowed",
    409: "Nothing was changed",
    429: "Too many attempts",
    503: "Database unavailable",
}
_UNAVAILABLE = "the database is unavailable; see the server log"


def error_response(
    request: Request, status: int, message: str, headers: Mapping[str, str] | None = None, title: str | None = None
) -> Response:
    """A page for browsers, JSON for everything else."""
    if "text/html" in request.headers.get("accept", "") and not _is_api(request):
        context = request.scope.get(CONTEXT_KEY) or Context(request, NOBODY, "", {})
        response: Response = page(
            context,
            "error.html",
            status,
            title=title or _TITLES.get(status, "Request failed"),
            message=sentence(message),
            # After a failed change, loading the page again would make the change again.
            reloads=status == 503 and request.method in SAFE_METHODS,
        )
        response.headers.update(headers or {})
        return response
    return JSONResponse({"error": message}, status, headers)


class ErrorShield:
    """Middleware around the whole application. Adds the security headers to every response; logs unexpected exceptions
    and answers them without details."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_with_headers(message: Message) -> None:
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
            await self._app(scope, receive, send_with_headers)
        except Exception:
            if scope["type"] != "http" or started:
                raise
            log.exception("the dashboard failed to handle %s %r", scope["method"], scope["path"])
            response = JSONResponse({"error": "internal error; see the server log"}, 500)
            await response(scope, receive, send_with_headers)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker
    return error_response(request, error.status_code, error.detail, error.headers)


def _handler(status: int, message: str | None = None) -> Callable[[Request, Exception], Response]:
    """Answers with this message, and logs the error; without a message, answers with that of the error itself."""

    def respond(request: Request, error: Exception) -> Response:
        if message is not None:
            # The details of a database error are for the log, not for visitors.
            log.error("the dashboard failed to handle a request: %s", error)
        return error_response(request, status, message or masked(str(error)))

    return respond


def _unreachable(request: Request, error: Exception) -> Response:
    assert isinstance(error, DatabaseUnreachable)  # noqa: S101 - for the type checker
    log.error("the dashboard failed to handle a request: %s", error)
    return error_response(request, 503, error.summary)


def _table_locked(request: Request, error: Exception) -> Response:
    message = "another session has locked a table in the database: the Health page shows which one"
    return error_response(request, 503, message, title="A table is locked")


def _too_slow(request: Request, error: Exception) -> Response:
    message = f"{masked(str(error))}. A table may be locked, or the server overloaded: the Health page shows why"
    return error_response(request, 503, message, title="The database is too slow")


def _is_api(request: Request) -> bool:
    path: str = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return path.startswith("/api/")


HANDLERS: Mapping[Any, Callable[[Request, Exception], Response]] = {
    HTTPException: _http_error,
    InvalidArgument: _handler(400),
    InvalidPayload: _handler(400),
    JobNotFound: _handler(404),
    UnknownSchedule: _handler(404),
    UnknownSignal: _handler(404),
    UnknownLimit: _handler(404),
    UnknownName: _handler(404),
    UnknownErrorGroup: _handler(404),
    UnknownWorker: _handler(404),
    WrongStatus: _handler(409),
    ActRepeated: _handler(409),
    JobLocked: _handler(409),
    DatabaseUnreachable: _unreachable,
    TableLocked: _table_locked,
    TooSlow: _too_slow,
    NotAllowed: _handler(503, "the dashboard's database user lacks a privilege; see the server log"),
    TreadleError: _handler(503, _UNAVAILABLE),
    DatabaseError: _handler(503, _UNAVAILABLE),
}
