"""The one way in: every route is made here, with the role that it asks for. What is not made here is not served.

A change also has to come from a page of ours: its Origin is this host, and its form proves to know cookies that no
stranger's page can read or send. Nothing changes by GET.
"""

import hashlib
import hmac
import inspect
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, urlsplit

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from treadle.web.dashboard.access import NOBODY, Authorize, Role, Visitor, cleaned
from treadle.web.dashboard.body import Form, read_body
from treadle.web.dashboard.cookies import BROWSER, SESSION, keep, kept
from treadle.web.dashboard.roots import root
from treadle.web.stream import EventStream

Endpoint: TypeAlias = Callable[["Asked"], Awaitable[Response]]

SAFE = {"GET", "HEAD"}
# A stream ends then, and the browser comes back to the gate: who has no right any more is not told for ever.
STREAM_SECONDS = 600.0
# Where an error finds who asked, to answer with a page.
ASKED = "treadle.asked"


class Rule(NamedTuple):
    """A route, and who may use it."""

    method: str
    path: str
    endpoint: Endpoint
    role: Role
    """NOBODY: everybody."""
    summary: str = ""
    gives: Any = None
    """What an answer of the API is, as pydantic has it."""
    takes: type[BaseModel] | None = None
    """What is sent to it."""
    asks: type[BaseModel] | None = None
    """What its address may say after the question mark."""


class Asked(NamedTuple):
    """A request that was let in."""

    request: Request
    visitor: Visitor
    proof: str
    """For the forms of the page that is answered with."""
    form: Form
    """What was sent; empty for GET."""
    sent: Any = None
    """What was sent as JSON."""

    def field(self, name: str) -> str | None:
        """The value of a field of the form, for GET of the address; None if it is empty or not there."""
        given = self.request.query_params.getlist(name) if self.request.method in SAFE else self.form.get(name)
        return given[0] if given and given[0] else None

    def url(self, path: str) -> str:
        """Where this is mounted, and the path."""
        return f"{root(self.request)}{path}"


class Guarded:
    """An endpoint behind its rule."""

    def __init__(self, rule: Rule, authorize: Authorize, has_login: bool = True) -> None:
        self.rule = rule
        self._authorize = authorize
        self._has_login = has_login

    async def answer(self, request: Request) -> Response:
        visitor = await self._visitor(request)
        browser = kept(request, BROWSER)
        new = not browser
        browser = browser or secrets.token_urlsafe(24)
        # Bound to the session: who could plant one cookie still does not know the other.
        proof = _proof(browser, kept(request, SESSION))
        asked = request.scope[ASKED] = Asked(request, visitor, proof, {})
        if visitor.role < self.rule.role:
            return self._turned_away(asked)
        if self.rule.method not in SAFE:
            _check_origin(request, visitor)
            form, sent = await read_body(request)
            asked = asked._replace(form=form, sent=sent)
            if not visitor.by_token:
                given = request.headers.get("x-treadle-proof") or form.get("proof", [""])[0]
                if not hmac.compare_digest(given.encode(), proof.encode()):
                    raise HTTPException(403, "this form is too old; load the page again")
        response = await self.rule.endpoint(asked)
        if isinstance(response, EventStream):
            response.seconds = STREAM_SECONDS
        if new and not visitor.by_token:
            keep(request, response, BROWSER, browser)
        return response

    async def _visitor(self, request: Request) -> Visitor:
        said = self._authorize(request)
        visitor = (await said if inspect.isawaitable(said) else said) or NOBODY
        if not isinstance(visitor, Visitor):
            raise TypeError(f"authorize must return a Visitor, or None for nobody, got {type(visitor).__name__}")
        return visitor._replace(role=Role(visitor.role), name=cleaned(visitor.name, Role(visitor.role)))

    def _turned_away(self, asked: Asked) -> Response:
        request, needed = asked.request, self.rule.role.name.lower()
        if asked.visitor.role is not Role.NOBODY:
            raise HTTPException(403, f"this needs the role {needed}")
        if not self._has_login:
            raise HTTPException(401, f"this needs the role {needed}")
        if self.rule.method in SAFE and self.rule.gives is None and "text/html" in request.headers.get("accept", ""):
            asked_for = _own(request) + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"{asked.url('/login')}?back={quote(asked_for, safe='/')}", 303)
        raise HTTPException(401, "who are you? Sign in, or send a bearer token", {"www-authenticate": "Bearer"})


def route(rule: Rule, authorize: Authorize, has_login: bool = True) -> Route:
    guarded = Guarded(rule, authorize, has_login)
    made = Route(rule.path, guarded.answer, methods=[rule.method], name=f"{rule.method} {rule.path}")
    made.methods = {rule.method}  # Starlette adds HEAD to GET, and an endless stream has no HEAD
    return made


def _own(request: Request) -> str:
    """The path without where we are mounted."""
    return quote(request.scope["path"].removeprefix(request.scope.get("root_path", "")), safe="/")


def _proof(browser: str, session: str) -> str:
    return hashlib.sha256(f"treadle proof {browser} {session}".encode()).hexdigest()


def _check_origin(request: Request, visitor: Visitor) -> None:
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if origin is None and site is None and not visitor.by_token:
        raise HTTPException(403, "a change needs the header Origin, which every browser sends")
    host = request.headers.get("host", "").lower()
    if origin is not None and _netloc(origin) != host:
        raise HTTPException(
            403,
            f"this change was asked for by a page of {origin[:100]}, and this is {host[:100]}; a proxy has to pass the "
            "header Host on",
        )
    if site not in (None, "same-origin", "none"):
        raise HTTPException(403, "this change was asked for by a page of another site")


def _netloc(origin: str) -> str | None:
    """Of an origin with its scheme; None for `null` and for what cannot be read."""
    try:
        split = urlsplit(origin)
    except ValueError:
        return None
    return split.netloc.lower() if split.scheme in ("http", "https") else None
