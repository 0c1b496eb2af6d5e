"""The one way in: every route is made here, with the role that it asks for. What is not made here is not served.

A change also has to come from a page of ours: its Origin is this host, and its form proves to know a cookie that no
stranger's page can read or send. Nothing changes by GET.
"""

import hashlib
import hmac
import inspect
import secrets
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias
from urllib.parse import parse_qs, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from treadle.web.dashboard.access import NOBODY, Authorize, Role, Visitor

Endpoint: TypeAlias = Callable[["Asked"], Awaitable[Response]]

BROWSER = "treadle_browser"
# Of a form: ids and filters.
BODY_LIMIT = 200_000
SAFE = {"GET", "HEAD"}


class Rule(NamedTuple):
    """A route, and who may use it."""

    method: str
    path: str
    endpoint: Endpoint
    role: Role
    """NOBODY: everybody."""
    summary: str = ""


class Asked(NamedTuple):
    """A request that was let in."""

    request: Request
    visitor: Visitor
    proof: str
    """For the forms of the page that is answered with."""
    form: dict[str, list[str]]
    """What was sent; empty for GET."""

    def field(self, name: str) -> str | None:
        """The value of a field of the form or the address, None if it is empty or not there."""
        given = self.form.get(name) or self.request.query_params.getlist(name)
        return given[0] if given and given[0] else None

    def url(self, path: str) -> str:
        """Where this is mounted, and the path."""
        return f"{self.request.scope.get('root_path', '')}{path}"


class Guarded:
    """An endpoint behind its rule."""

    def __init__(self, rule: Rule, authorize: Authorize) -> None:
        self.rule = rule
        self._authorize = authorize

    async def answer(self, request: Request) -> Response:
        asked_by = self._authorize(request)
        visitor = (await asked_by if inspect.isawaitable(asked_by) else asked_by) or NOBODY
        if visitor.role < self.rule.role:
            return self._turned_away(request, visitor)
        browser = request.cookies.get(BROWSER, "")
        form: dict[str, list[str]] = {}
        if self.rule.method not in SAFE:
            form = await _form(request)
            _check_origin(request)
            if not visitor.by_token:
                given = request.headers.get("x-treadle-proof") or form.get("proof", [""])[0]
                if not browser or not hmac.compare_digest(given.encode(), _proof(browser).encode()):
                    raise HTTPException(403, "this form is too old; load the page again")
        new = not browser
        browser = browser or secrets.token_urlsafe(24)
        response = await self.rule.endpoint(Asked(request, visitor, _proof(browser), form))
        if new and not visitor.by_token:
            response.set_cookie(
                BROWSER,
                browser,
                httponly=True,
                samesite="strict",
                secure=request.url.scheme == "https",
                path=request.scope.get("root_path", "") or "/",
            )
        return response

    def _turned_away(self, request: Request, visitor: Visitor) -> Response:
        root = request.scope.get("root_path", "")
        if visitor.role is not Role.NOBODY:
            raise HTTPException(403, f"this needs the role {self.rule.role.name.lower()}")
        if self.rule.method in SAFE and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(f"{root}/login", 303)
        raise HTTPException(401, "who are you? Sign in, or send a bearer token", {"www-authenticate": "Bearer"})


def route(rule: Rule, authorize: Authorize) -> Route:
    made = Route(rule.path, Guarded(rule, authorize).answer, methods=[rule.method], name=f"{rule.method} {rule.path}")
    made.methods = {rule.method}  # Starlette adds HEAD to GET, and an endless stream has no HEAD
    return made


def _proof(browser: str) -> str:
    return hashlib.sha256(f"treadle proof {browser}".encode()).hexdigest()


def _check_origin(request: Request) -> None:
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower():
        raise HTTPException(403, "this change was asked for by a page of another site")
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403, "this change was asked for by a page of another site")


async def _form(request: Request) -> dict[str, list[str]]:
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        return {}
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_LIMIT:
            raise HTTPException(413, f"a form has at most {BODY_LIMIT:,} bytes")
    try:
        return parse_qs(body.decode(), max_num_fields=2000)
    except ValueError:
        raise HTTPException(400, "this form cannot be read") from None
