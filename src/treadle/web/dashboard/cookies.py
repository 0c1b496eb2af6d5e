"""Cookies that no script can read and no other site can send; by TLS, none that another name of this site has set."""

from starlette.requests import HTTPConnection
from starlette.responses import Response

from treadle.web.dashboard.roots import root

SESSION = "treadle_session"
BROWSER = "treadle_browser"


def kept(connection: HTTPConnection, name: str) -> str:
    return connection.cookies.get(_called(connection, name), "")


def keep(connection: HTTPConnection, response: Response, name: str, value: str, seconds: int | None = None) -> None:
    """Until the browser is closed, if no time is given."""
    response.set_cookie(
        _called(connection, name),
        value,
        max_age=seconds,
        httponly=True,
        samesite="strict",
        secure=_is_secure(connection),
        path=_path(connection),
    )


def forget(connection: HTTPConnection, response: Response, name: str) -> None:
    response.delete_cookie(
        _called(connection, name),
        httponly=True,
        samesite="strict",
        secure=_is_secure(connection),
        path=_path(connection),
    )


def _is_secure(connection: HTTPConnection) -> bool:
    return connection.url.scheme == "https"


def _called(connection: HTTPConnection, name: str) -> str:
    # A browser takes a cookie with this prefix from this very host alone, by TLS, and for all of its paths.
    return f"__Host-{name}" if _is_secure(connection) else name


def _path(connection: HTTPConnection) -> str:
    return "/" if _is_secure(connection) else root(connection) or "/"
