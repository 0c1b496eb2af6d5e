"""URLs inside the dashboard, wherever it is mounted."""

from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.requests import HTTPConnection

MAX_LENGTH = 2000
# The query parameters that report the result of a change.
_RESULT_PARAMETERS = ("bulk", "done", "unfit", "busy", "missing", "next")


def mount_path(connection: HTTPConnection) -> str:
    """The path where the dashboard is mounted: empty, or for example /queue."""
    # The application may take part of this path from the request, and it is written into headers.
    return quote(str(connection.scope.get("root_path", "")).rstrip("/"), safe="/~")


def local_path(given: str | None) -> str | None:
    """A path (with its query) if it leads to a page of the dashboard, otherwise None. Prevents open redirects."""
    if not given or len(given) > MAX_LENGTH or not given.isascii() or not given.isprintable() or "\\" in given:
        return None
    if not given.startswith("/") or given.startswith("//") or ".." in given.partition("?")[0].split("/"):
        return None
    return given


def with_result(path: str, **parameters: str) -> str:
    """The path with these parameters in its query, in place of those of an earlier change."""
    split = urlsplit(path)
    rest = [pair for pair in parse_qsl(split.query) if pair[0] not in _RESULT_PARAMETERS]
    return split._replace(query=urlencode([*rest, *parameters.items()]), fragment="").geturl()
