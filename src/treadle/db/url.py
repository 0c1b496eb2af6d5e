"""Which database to use, and how to describe it without its password."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from treadle.settings import value_of
from treadle.text.secrets import MASK
from treadle.words.errors import InvalidArgument

CONNECT_SECONDS = 5
INVALID = (
    "the database URL is invalid; expected postgresql://user:password@host:5432/database, with special characters "
    "percent-encoded, such as / as %2F and @ as %40"
)
# Parameters of libpq that are never shown.
SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
# What is shown has to look like a host, an address, a folder with a socket, or the name of a database.
_IS_URL = re.compile("postgres(?:ql)?://")
_HOST = re.compile(r"[\w.\-]*|(?=.*:.*:)[0-9A-Fa-f:.]+(?:%\w+)?|(?:[A-Za-z]:)?[/\\][^@:?&=]*")
_DATABASE = re.compile(r"[\w.\- ]*")


# The drivers of SQLAlchemy, which people have in DATABASE_URL.
_DRIVER = re.compile(r"postgres(?:ql)?\+(?:asyncpg|psycopg|psycopg_async|psycopg2|psycopg2cffi|pg8000)://")


class Target(NamedTuple):
    url: str
    embedded: bool


def resolve(url: str | Callable[[], str] | None) -> Target:
    """The given URL, else that of the settings, else the embedded server's."""
    if found := (url() if callable(url) else url) or value_of("database_url"):
        described(found)
        return Target(plain(found), embedded=False)
    from treadle.db.embedded import embedded_url  # here, because most processes do not need it

    return Target(embedded_url(), embedded=True)


def resolve_listening(url: str | None) -> str | None:
    """The URL for receiving notifications, if one is given or in the settings."""
    found = url or value_of("listen_url")
    if not found:
        return None
    described(found)
    return plain(found)


def plain(url: str) -> str:
    """The URL without the name of a driver: postgresql+asyncpg://… becomes postgresql://…"""
    return _DRIVER.sub("postgresql://", url, count=1)


def require_url(url: str) -> None:
    """Raise InvalidArgument unless it is a URL or connection string."""
    if not url.strip():
        raise InvalidArgument("the database URL is empty; expected postgresql://…, or None for that of the settings")
    described(url)


def url_of(parameters: Mapping[str, Any]) -> str:
    """A connection string of those of the parameters that libpq knows: drivers and frameworks have others as well."""
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    return make_conninfo("", **{name: value for name, value in parameters.items() if name in known})


def parts_of(url: str) -> dict[str, str]:
    """The parameters of a URL or connection string, or InvalidArgument. The message quotes nothing of it: an unescaped
    character may have made a part of the password look like another part."""
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(plain(url)).items() if value is not None}
    except (ProgrammingError, UnicodeError):
        raise InvalidArgument(INVALID) from None
    if not all(port.isascii() and port.isdigit() for port in parts.get("port", "").split(",") if port):
        raise InvalidArgument(INVALID)
    if "@" in parts.get("host", "").lstrip("@"):  # an @ in front is an abstract socket
        raise InvalidArgument(INVALID)
    return parts


def described(url: str) -> str:
    """Host, port and database: the parts that an error message may show. None of them, if one may be a part of the
    password."""
    parts = parts_of(url)
    if may_show_password(url):
        return "the given database URL"
    hosts = (parts.get("host") or parts.get("hostaddr") or "the local socket").split(",")
    # One port for all hosts, or one for each.
    ports = parts.get("port", "").split(",")
    ports = ports if len(ports) == len(hosts) else ports * len(hosts)
    addresses = (f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=False))
    return f"{' or '.join(addresses)}/{parts.get('dbname', '')}".rstrip("/")


def may_show_password(url: str) -> bool:
    """Whether a part of the password may have been read as a host or as the name of the database: in ada:12/34@host/db,
    libpq reads the host ada, the port 12 and the database 34@host/db."""
    url = plain(url)
    parts = parts_of(url)
    authority, _, after = _IS_URL.sub("", url, count=1).partition("/")
    if _IS_URL.match(url) and (authority.count("@") > 1 or "@" in after):
        return True
    hosts = [*parts.get("host", "").split(","), *parts.get("hostaddr", "").split(",")]
    return not all(_HOST.fullmatch(host) for host in hosts) or not _DATABASE.fullmatch(parts.get("dbname", ""))


def reason_of(error: Exception, url: str) -> str:
    """The message of libpq in one line, without anything that may be a secret of the URL."""
    if may_show_password(url):
        return (
            "the reason is not shown, because it may contain a part of the password; percent-encode special characters "
            "in the user name, the password and the name of the database, such as / as %2F and @ as %40"
        )
    text = " ".join(str(error).split()).removeprefix("connection failed: ").removeprefix("connection is bad: ")
    parts = parts_of(url)
    shown = {parts.get(name) for name in ("user", "host", "dbname")}
    for secret in (parts.get(name) for name in SECRETS):
        if secret and secret not in shown:
            # Only whole words: masking every p in the message would garble it, and would reveal the password p.
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", MASK, text)
    return text


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
    given = parts_of(url)
    return make_conninfo(plain(url), **{name: value for name, value in settings.items() if name not in given})


def hosts(url: str) -> int:
    """How many servers libpq may try, one after the other."""
    parts = parts_of(url)
    return len((parts.get("host") or parts.get("hostaddr") or "").split(","))


def with_part(url: str, **parts: str) -> str:
    """A URL with other parameters, such as another database. It is a URL even if a connection string was given: drivers
    other than libpq read only URLs."""
    found = parts_of(url) | parts
    user, password, name = (quote(found.pop(each, ""), safe="") for each in ("user", "password", "dbname"))
    account = f"{user}:{password}@" if password else f"{user}@" if user else ""
    query = urlencode(found, quote_via=quote)
    return f"postgresql://{account}/{name}" + (f"?{query}" if query else "")
