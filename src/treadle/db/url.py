"""Which database to use, and how to describe it without its password."""

import os
from typing import NamedTuple

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from treadle.words.errors import InvalidArgument

VARIABLES = ("TREADLE_DATABASE_URL", "DATABASE_URL")
LISTEN_VARIABLE = "TREADLE_LISTEN_URL"
CONNECT_SECONDS = 5


class Target(NamedTuple):
    url: str
    embedded: bool


def resolve(url: str | None) -> Target:
    """The given URL, else the environment's, else the embedded server's."""
    for found in (url, *map(os.environ.get, VARIABLES)):
        if found:
            described(found)
            return Target(found, embedded=False)
    from treadle.db.embedded import embedded_url  # here, because most processes do not need it

    return Target(embedded_url(), embedded=True)


def resolve_listening(url: str | None) -> str | None:
    """The URL for receiving notifications, if one is given or in the environment."""
    found = url or os.environ.get(LISTEN_VARIABLE)
    if found:
        described(found)
    return found or None


def described(url: str) -> str:
    """Host, port and database: the parts that an error message may show."""
    try:
        parts = conninfo_to_dict(url)
    except ProgrammingError:
        raise InvalidArgument(
            "the database URL is invalid; expected postgresql://user:password@host:5432/database"
        ) from None
    hosts = str(parts.get("host") or parts.get("hostaddr") or "the local socket").split(",")
    # One port for all hosts, or one for each.
    ports = str(parts.get("port") or "").split(",")
    ports = ports if len(ports) == len(hosts) else ports * len(hosts)
    places = (f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=False))
    return f"{' or '.join(places)}/{parts.get('dbname') or ''}".rstrip("/")


def patient(url: str, connect_seconds: int = CONNECT_SECONDS) -> str:
    """The URL with settings that detect a dead server within 10 s; the defaults of the kernel take 15 minutes. And text
    is UTF-8, whatever the role's default is. Settings in the URL itself take precedence."""
    settings: dict[str, str | int] = {
        "connect_timeout": connect_seconds,  # for each of its hosts
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
        "client_encoding": "UTF8",
    }
    given = conninfo_to_dict(url)
    return make_conninfo(url, **{name: value for name, value in settings.items() if name not in given})


def hosts(url: str) -> int:
    """How many servers libpq may try, one after the other."""
    parts = conninfo_to_dict(url)
    return len(str(parts.get("host") or parts.get("hostaddr") or "").split(","))
