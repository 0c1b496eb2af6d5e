"""Where the dashboard is mounted, and which addresses are its own."""

from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.requests import HTTPConnection

LONGEST = 2000
_WORDS = ("bulk", "done", "unfit", "busy", "missing", "next")


def root(connection: HTTPConnection) -> str:
    """What stands before our own paths: empty, or /queue."""
    # A part of it may come from the request, if the application mounts it so: it goes into headers.
    return quote(str(connection.scope.get("root_path", "")).rstrip("/"), safe="/~")


def own_path(given: str | None) -> str | None:
    """A path (with its query) that leads to a page of ours, wherever we are mounted; None for anything else."""
    if not given or len(given) > LONGEST or not given.isascii() or not given.isprintable() or "\\" in given:
        return None
    if not given.startswith("/") or given.startswith("//") or ".." in given.partition("?")[0].split("/"):
        return None
    return given


def with_words(path: str, **words: str) -> str:
    """The path, with these words in its query instead of those of the time before."""
    split = urlsplit(path)
    rest = [pair for pair in parse_qsl(split.query) if pair[0] not in _WORDS]
    return split._replace(query=urlencode([*rest, *words.items()]), fragment="").geturl()
