"""Access without secrets, for a server that listens on a loopback address only."""

import re
from ipaddress import ip_address

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from treadle.web.dashboard.security.access import Role, Visitor
from treadle.web.dashboard.security.role_secrets import VARIABLES

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:\d{1,5})?", re.ASCII)
_PROXY_HEADERS = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")


def local_only(connection: HTTPConnection) -> Visitor:
    """Makes every user of this machine an operator, and refuses all other requests.

    DNS rebinding is refused because the Host header then names another host. Requests through a proxy are refused
    because the proxy would give everyone access.
    """
    host = _HOST.fullmatch(connection.headers.get("host", "").lower())
    if (
        host is None
        or not _is_loopback(host["name"])
        or (connection.client is not None and not _is_loopback(connection.client.host))
        or any(name in connection.headers for name in _PROXY_HEADERS)
        # By default nginx sends none of these headers, but it speaks HTTP/1.0 to the server behind it.
        or connection.scope.get("http_version") == "1.0"
    ):
        raise HTTPException(
            403,
            "without secrets, the dashboard accepts only requests from this machine, to localhost or 127.0.0.1, and "
            f"not through a proxy; to allow others, set {VARIABLES[Role.OPERATOR]} and {VARIABLES[Role.VIEWER]}",
        )
    return Visitor(Role.OPERATOR, "this machine")


def _is_loopback(name: str) -> bool:
    try:
        return name == "localhost" or ip_address(name.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False
