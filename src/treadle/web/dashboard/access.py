"""Who may do what. Deny by default: a visitor without a role sees the way in, and nothing else."""

import hashlib
import hmac
import os
from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.requests import HTTPConnection

from treadle.words.errors import InvalidArgument
from treadle.words.phrases import printable

SESSION_SECONDS = 12 * 3600
SHORTEST_SECRET = 12
COOKIE = "treadle_session"
_VARIABLES = {"VIEWER": "TREADLE_DASHBOARD_VIEWER", "OPERATOR": "TREADLE_DASHBOARD_OPERATOR"}
_LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}


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
        self._secrets = dict(secrets)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Access":
        """TREADLE_DASHBOARD_VIEWER and TREADLE_DASHBOARD_OPERATOR."""
        return cls({Role[name]: environment[each] for name, each in _VARIABLES.items() if environment.get(each)})

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def role_of(self, secret: str) -> Role:
        """Compared in a time that says nothing of the secrets."""
        found = Role.NOBODY
        for role, known in self._secrets.items():
            if hmac.compare_digest(known.encode(), secret.encode()):
                found = role
        return found

    def sign(self, role: Role, name: str) -> str:
        """The cookie of a visitor who came in with the secret of this role."""
        return self._serializer(role).dumps({"role": role.name, "name": name})

    def __call__(self, connection: HTTPConnection) -> Visitor | None:
        kind, _, token = connection.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            role = self.role_of(token.strip())
            return Visitor(role, f"token ({role.name.lower()})", by_token=True) if role else None
        return self._visitor(connection.cookies.get(COOKIE, ""))

    def _visitor(self, cookie: str) -> Visitor | None:
        for role in self._secrets:
            try:
                said = self._serializer(role).loads(cookie, max_age=SESSION_SECONDS)
            except BadSignature:
                continue
            if isinstance(said, dict) and said.get("role") == role.name:
                return Visitor(role, printable(str(said["name"]))[:100])
        return None

    def _serializer(self, role: Role) -> URLSafeTimedSerializer:
        # Whoever changes the secret sends everybody home who came in with it.
        key = hashlib.sha256(f"treadle dashboard {role.name} {self._secrets[role]}".encode()).hexdigest()
        return URLSafeTimedSerializer(key, salt="treadle.session")


def only_here(connection: HTTPConnection) -> Visitor | None:
    """Whoever sits at this machine may do everything. For a server that listens on a loopback address alone: a page of
    somebody else's whose name was pointed here says another host."""
    host = connection.headers.get("host", "")
    name = host if host.endswith("]") else host.rsplit(":", 1)[0]
    if name.lower() not in _LOOPBACK:
        return None
    return Visitor(Role.OPERATOR, "this machine")
