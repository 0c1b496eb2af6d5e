"""Routes and the roles that they require.

Every route of the dashboard is a `RouteSpec`, and only `build_route` turns one into a Starlette route. The endpoint
behind it therefore never runs before the visitor's role was checked and, for changes, the request was checked for
forgery. GET requests change nothing.
"""

import asyncio
import inspect
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from treadle.db.screen_limits import on_screen
from treadle.web.dashboard.request_body import Form, read_body
from treadle.web.dashboard.security.access import NOBODY, Authorize, Role, Visitor, cleaned_name
from treadle.web.dashboard.security.cookies import BROWSER, SESSION, get_cookie, set_cookie
from treadle.web.dashboard.security.csrf import check_origin, check_token, csrf_token
from treadle.web.dashboard.urls import mount_path
from treadle.web.stream import EventStream
from treadle.words.errors import DatabaseUnreachable, InvalidArgument, shown

Endpoint: TypeAlias = Callable[["Context"], Awaitable[Response]]

SAFE_METHODS = {"GET", "HEAD"}
# A stream ends after this time. The browser reconnects, which checks again whether the visitor still has access.
STREAM_SECONDS = 600.0
# How long a page may take to answer. After that the database is said not to answer.
PAGE_SECONDS = 2.7
# The key in the ASGI scope where the error handlers find the Context, to render an error page.
CONTEXT_KEY = "treadle.context"


class RouteSpec(NamedTuple):
    """A route and the role that it requires."""

    method: str
    path: str
    endpoint: Endpoint
    role: Role
    """NOBODY: the route is public."""
    summary: str = ""
    """Of the API."""
    response_model: Any = None
    """Of the API: the JSON response, as a pydantic model."""
    body_model: type[BaseModel] | None = None
    """Of the API: the JSON request body."""
    query_model: type[BaseModel] | None = None
    """Of the API: the query parameters."""
    seconds: float | None = None
    """A GET is answered within this time; None: PAGE_SECONDS."""


class Context(NamedTuple):
    """A request whose visitor is known and has access."""

    request: Request
    visitor: Visitor
    csrf_token: str
    """For the forms on the page that is rendered."""
    form: Form
    """The fields of a submitted form; empty for GET."""
    json: Any = None
    """The request body, if it was JSON."""

    def field(self, name: str) -> str | None:
        """A field of the form, or for GET a query parameter; None if it is empty or missing."""
        safe = self.request.method in SAFE_METHODS
        given = self.request.query_params.getlist(name) if safe else self.form.get(name)
        return given[0] if given and given[0] else None

    def url(self, path: str) -> str:
        """The path of a page, below the path where the dashboard is mounted."""
        return f"{mount_path(self.request)}{path}"


class ProtectedEndpoint:
    """An endpoint that runs only after access was checked."""

    def __init__(self, route: RouteSpec, authorize: Authorize, has_login: bool = True) -> None:
        self.route = route
        self._authorize = authorize
        self._has_login = has_login

    async def respond(self, request: Request) -> Response:
        visitor = await self._visitor(request)
        browser = get_cookie(request, BROWSER)
        is_new = not browser
        browser = browser or secrets.token_urlsafe(24)
        token = csrf_token(browser, get_cookie(request, SESSION))
        context = request.scope[CONTEXT_KEY] = Context(request, visitor, token, {})
        if visitor.role < self.route.role:
            return self._deny(context)
        _check_address(request)
        if self.route.method not in SAFE_METHODS:
            check_origin(request, visitor)
            form, json = await read_body(request)
            context = context._replace(form=form, json=json)
            if not visitor.by_token:
                check_token(request.headers.get("x-csrf-token") or form.get("csrf_token", [""])[0], token)
        response = await self._respond_in_time(context)
        if isinstance(response, EventStream):
            response.max_seconds = STREAM_SECONDS
        if is_new and not visitor.by_token:
            set_cookie(request, response, BROWSER, browser)
        return response

    async def _respond_in_time(self, context: Context) -> Response:
        with on_screen():
            if self.route.method not in SAFE_METHODS:
                return await self.route.endpoint(context)  # whoever makes a change wants to know whether it was made
            responding = asyncio.ensure_future(self.route.endpoint(context))
        # A page may need several reads, each within its own time limit. It is not cancelled: the driver would take
        # seconds to cancel a statement if the server does not answer.
        responding.add_done_callback(lambda task: task.cancelled() or task.exception())
        seconds = self.route.seconds or PAGE_SECONDS
        if not (await asyncio.wait({responding}, timeout=seconds))[0]:
            message = f"the database has not answered for {seconds:.0f} seconds"
            raise DatabaseUnreachable(message, message)
        return responding.result()

    async def _visitor(self, request: Request) -> Visitor:
        result = self._authorize(request)
        visitor = (await result if inspect.isawaitable(result) else result) or NOBODY
        if not isinstance(visitor, Visitor):
            raise TypeError(f"authorize must return a Visitor, or None to deny access, got {type(visitor).__name__}")
        return visitor._replace(role=Role(visitor.role), name=cleaned_name(visitor.name, Role(visitor.role)))

    def _deny(self, context: Context) -> Response:
        request, role = context.request, self.route.role.name.lower()
        if context.visitor.role is not Role.NOBODY:
            raise HTTPException(403, f"this requires the role {role}")
        if not self._has_login:
            raise HTTPException(401, f"this requires the role {role}")
        is_page = self.route.method in SAFE_METHODS and self.route.response_model is None
        if is_page and "text/html" in request.headers.get("accept", ""):
            target = _path_below_mount(request) + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"{context.url('/login')}?back={quote(target, safe='/')}", 303)
        raise HTTPException(401, "sign in, or send a bearer token", {"www-authenticate": "Bearer"})


def build_route(route: RouteSpec, authorize: Authorize, has_login: bool = True) -> Route:
    protected = ProtectedEndpoint(route, authorize, has_login)
    built = Route(route.path, protected.respond, methods=[route.method], name=f"{route.method} {route.path}")
    built.methods = {route.method}  # Starlette adds HEAD to GET, which an endless stream cannot answer
    return built


def _check_address(request: Request) -> None:
    """PostgreSQL stores no NUL characters, so nothing can match one."""
    for name, value in (*request.query_params.multi_items(), *request.path_params.items()):
        if "\x00" in name or "\x00" in value:
            raise InvalidArgument(f"{shown(name)} must not contain NUL characters, got {shown(value)}")


def _path_below_mount(request: Request) -> str:
    return quote(request.scope["path"].removeprefix(request.scope.get("root_path", "")), safe="/")
