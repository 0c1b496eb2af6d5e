"""Protection against cross-site request forgery.

A change must come from a page of the dashboard. Its Origin header must name this host, and its form must contain a
token that is derived from two cookies, which a page of another site can neither read nor send.
"""

import hashlib
import hmac
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request

from treadle.web.dashboard.security.access import Visitor


def csrf_token(browser: str, session: str) -> str:
    """The token for the forms of one browser.

    It depends on the session cookie too, so that someone who can plant the browser cookie still cannot compute it.
    """
    return hashlib.sha256(f"treadle csrf {browser} {session}".encode()).hexdigest()


def check_token(given: str, expected: str) -> None:
    if not hmac.compare_digest(given.encode(), expected.encode()):
        raise HTTPException(403, "this form has expired; reload the page and try again")


def check_origin(request: Request, visitor: Visitor) -> None:
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if origin is None and site is None and not visitor.by_token:
        raise HTTPException(403, "the Origin header is missing; it is required for changes, and every browser sends it")
    host = request.headers.get("host", "").lower()
    if origin is not None and _netloc(origin) != host:
        raise HTTPException(
            403,
            f"this request came from a page of {origin[:100]}, but the dashboard is at {host[:100]}; if there is a "
            "proxy in front of the dashboard, it must forward the Host header",
        )
    if site not in (None, "same-origin", "none"):
        raise HTTPException(403, "this request came from a page of another site")


def _netloc(origin: str) -> str | None:
    """The host and port of an origin; None for `null` and for anything that is not an HTTP origin."""
    try:
        split = urlsplit(origin)
    except ValueError:
        return None
    return split.netloc.lower() if split.scheme in ("http", "https") else None
