"""Who may do what. Deny by default: a visitor without a role sees the way in, and nothing else."""

import asyncio
import hashlib
import hmac
import os
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from ipaddress import IPv6Address, ip_address, ip_network
from typing import NamedTuple, TypeAlias

from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from treadle.web.dashboard.cookies import SESSION, kept
from treadle.words.errors import InvalidArgument
from treadle.words.phrases import printable

SESSION_SECONDS = 12 * 3600
SHORTEST_SECRET = 12
# Whoever guesses has to wait, and only so many guesses from one address wait at once: five a second. By address, so
# that nobody who guesses can keep others out.
WRONG_SECONDS = 1.0
GUESSES = 5
_VARIABLES = {"VIEWER": "TREADLE_DASHBOARD_VIEWER", "OPERATOR": "TREADLE_DASHBOARD_OPERATOR"}
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:\d{1,5})?", re.ASCII)
_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")


class Role(IntEnum):
    """Each may do what the one before it may."""

    NOBODY = 0
    VIEWER = 1
    """Sees everything but the values in payloads, results and checkpoints."""
    OPERATOR = 2
    """Sees and changes."""


class Visitor(NamedTuple):
    role: Role
    name: str
    """For the audit."""
    by_token: bool = False
    """Came in by something that a browser does not send by itself: no stranger's page can act for this visitor."""
    signed_in: bool = False
    """By the form of the dashboard: can sign out."""


NOBODY = Visitor(Role.NOBODY, "nobody")

Authorize: TypeAlias = Callable[[HTTPConnection], Visitor | Awaitable[Visitor | None] | None]


class Access:
    """By a secret for each role: in a form, then in a signed cookie; or as a bearer token."""

    def __init__(self, secrets: Mapping[Role, str]) -> None:
        for role, secret in secrets.items():
            if len(secret) < SHORTEST_SECRET:
                raise InvalidArgument(
                    f"the secret of the {role.name.lower()} must have at least {SHORTEST_SECRET} characters, "
                    f"got {len(secret)}; for example: python3 -c 'import secrets; print(secrets.token_urlsafe())'"
                )
        if len(set(secrets.values())) < len(secrets):
            raise InvalidArgument("viewer and operator must not have the same secret")
        self._secrets = {role: _bytes(secret) for role, secret in secrets.items()}
        self._guessing: Counter[str] = Counter()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Access":
        """TREADLE_DASHBOARD_VIEWER and TREADLE_DASHBOARD_OPERATOR."""
        given = {Role[name]: environment[each].strip() for name, each in _VARIABLES.items() if each in environment}
        for role, secret in given.items():
            if not secret:
                # Most likely a variable that should have had a value: not a wish for no secret at all.
                raise InvalidArgument(f"{_VARIABLES[role.name]} is set but empty; give it a secret, or unset it")
        return cls(given)

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def role_of(self, secret: str) -> Role:
        """Compared in a time that says nothing of the secrets, nor of their length."""
        given, found = hashlib.sha256(_bytes(secret.strip())).digest(), Role.NOBODY
        for role, known in self._secrets.items():
            if hmac.compare_digest(hashlib.sha256(known).digest(), given):
                found = role
        return found

    async def guess(self, connection: HTTPConnection, secret: str) -> Role:
        """The role of a secret; if it is wrong, only after a while."""
        address = _network(connection)
        if self._guessing[address] >= GUESSES:
            raise HTTPException(429, "too many wrong secrets came from here; wait a few seconds", {"retry-after": "2"})
        role = self.role_of(secret)
        if role is Role.NOBODY:
            self._guessing[address] += 1
            try:
                await asyncio.sleep(WRONG_SECONDS)
            finally:
                self._guessing[address] -= 1
                self._guessing += Counter()  # those at zero go
        return role

    def sign(self, role: Role, name: str) -> str:
        """The cookie of a visitor who came in with the secret of this role."""
        return self._serializer(role).dumps({"role": role.name, "name": name})

    async def __call__(self, connection: HTTPConnection) -> Visitor | None:
        kind, _, token = connection.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            # Headers are read as Latin-1, whatever was sent.
            role = await self.guess(connection, token.encode("latin-1").decode(errors="replace"))
            return Visitor(role, f"token ({role.name.lower()})", by_token=True) if role else None
        return self._visitor(kept(connection, SESSION))

    def _visitor(self, cookie: str) -> Visitor | None:
        for role in self._secrets:
            try:
                said = self._serializer(role).loads(cookie, max_age=SESSION_SECONDS)
            except BadSignature:
                continue
            if isinstance(said, dict) and said.get("role") == role.name:
                return Visitor(role, str(said["name"]), signed_in=True)
        return None

    def _serializer(self, role: Role) -> URLSafeTimedSerializer:
        # Whoever changes the secret sends everybody home who came in with it.
        key = hashlib.sha256(b"treadle dashboard %s %s" % (role.name.encode(), self._secrets[role])).hexdigest()
        return URLSafeTimedSerializer(key, salt="treadle.session")


def only_here(connection: HTTPConnection) -> Visitor:
    """Whoever sits at this machine may do everything. For a server that listens on a loopback address alone.

    A page of somebody else's whose name was pointed here says another host. A proxy that was put before it would let
    everybody in: what one has passed on is refused.
    """
    host = _HOST.fullmatch(connection.headers.get("host", "").lower())
    if (
        host is None
        or not _is_here(host["name"])
        or (connection.client is not None and not _is_here(connection.client.host))
        or any(name in connection.headers for name in _FORWARDED)
        # nginx, as it comes, sends none of these headers, and speaks this.
        or connection.scope.get("http_version") == "1.0"
    ):
        raise HTTPException(
            403,
            "without secrets the dashboard is only for this machine: under the name localhost or 127.0.0.1, and not "
            f"through a proxy; for others, set {_VARIABLES['OPERATOR']} and {_VARIABLES['VIEWER']}",
        )
    return Visitor(Role.OPERATOR, "this machine")


def cleaned(name: str, role: Role) -> str:
    """A visitor's name as it goes into the audit: on one line."""
    return printable(name)[:100].strip() or role.name.lower()


def _is_here(name: str) -> bool:
    try:
        return name == "localhost" or ip_address(name.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def _network(connection: HTTPConnection) -> str:
    host = connection.client.host if connection.client else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    # Who has one address of a network of version 6 has all of them.
    return str(ip_network((address, 64), strict=False) if isinstance(address, IPv6Address) else address)


def _bytes(secret: str) -> bytes:
    return secret.encode(errors="surrogateescape")
