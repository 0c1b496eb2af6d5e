"""The cookies of the dashboard: not readable by scripts, not sent by other sites, and over TLS bound to this host."""

from starlette.requests import HTTPConnection
from starlette.responses import Response

from treadle.web.dashboard.urls import mount_path

SESSION = "treadle_session"
BROWSER = "treadle_browser"


def get_cookie(connection: HTTPConnection, name: str) -> str:
    return connection.cookies.get(_full_name(connection, name), "")


def set_cookie(
    connection: HTTPConnection, response: Response, name: str, value: str, seconds: int | None = None
) -> None:
    """Without `seconds`, the cookie lasts until the browser is closed."""
    response.set_cookie(
        _full_name(connection, name),
        value,
        max_age=seconds,
        httponly=True,
        samesite="strict",
        secure=_is_secure(connection),
        path=_path(connection),
    )


def delete_cookie(connection: HTTPConnection, response: Response, name: str) -> None:
    response.delete_cookie(
        _full_name(connection, name),
        httponly=True,
        samesite="strict",
        secure=_is_secure(connection),
        path=_path(connection),
    )


def _is_secure(connection: HTTPConnection) -> bool:
    return connection.url.scheme == "https"


def _full_name(connection: HTTPConnection, name: str) -> str:
    # Browsers accept a cookie with this prefix only over TLS, from this exact host, and for all of its paths.
    return f"__Host-{name}" if _is_secure(connection) else name


def _path(connection: HTTPConnection) -> str:
    return "/" if _is_secure(connection) else mount_path(connection) or "/"
