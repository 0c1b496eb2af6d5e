"""Which database is meant, and how to speak of it without its password."""

import os
from typing import NamedTuple

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from treadle.db.embedded import embedded_url
from treadle.words.errors import InvalidArgument

VARIABLES = ("TREADLE_DATABASE_URL", "DATABASE_URL")


class Target(NamedTuple):
    url: str
    embedded: bool


def resolve(url: str | None) -> Target:
    """The given URL, else the environment's, else the embedded server's."""
    for found in (url, *map(os.environ.get, VARIABLES)):
        if found:
            described(found)
            return Target(found, embedded=False)
    return Target(embedded_url(), embedded=True)


def described(url: str) -> str:
    """Host, port and database: what an error message may show."""
    try:
        parts = conninfo_to_dict(url)
    except ProgrammingError:
        raise InvalidArgument(
            "the database URL cannot be read; expected postgresql://user:password@host:5432/database"
        ) from None
    host = parts.get("host") or parts.get("hostaddr") or "the local socket"
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"{host}{port}/{parts.get('dbname') or ''}".rstrip("/")
