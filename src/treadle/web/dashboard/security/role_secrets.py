"""Authentication with one shared secret per role."""

import asyncio
import hashlib
import hmac
import os
from collections import Counter
from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address, ip_network

from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from treadle.web.dashboard.security.access import Role, Visitor
from treadle.web.dashboard.security.cookies import SESSION, get_cookie
from treadle.words.errors import InvalidArgument

VARIABLES = {Role.VIEWER: "TREADLE_DASHBOARD_VIEWER", Role.OPERATOR: "TREADLE_DASHBOARD_OPERATOR"}
SESSION_SECONDS = 12 * 3600
MIN_LENGTH = 12
# A wrong secret is answered after a delay, and each address may have only a few such answers open at a time; further
# wrong ones are refused at once. A right secret is always accepted, whatever else comes from its address: many people
# may share one, and monitoring with a right token must not fail because of a colleague's typing errors. What keeps
# secrets from being guessed is their length.
WRONG_SECRET_SECONDS = 1.0
MAX_CONCURRENT_GUESSES = 5


class RoleSecrets:
    """Accepts a secret in the sign-in form, after which a signed cookie is enough, or as a bearer token."""

    def __init__(self, secrets: Mapping[Role, str]) -> None:
        for role, secret in secrets.items():
            if len(secret) < MIN_LENGTH:
                raise InvalidArgument(
                    f"the {role.name.lower()} secret must have at least {MIN_LENGTH} characters, got {len(secret)}; "
                    "generate one with: python3 -c 'import secrets; print(secrets.token_urlsafe())'"
                )
        if len(set(secrets.values())) < len(secrets):
            raise InvalidArgument("the viewer and operator secrets must be different")
        self._secrets = {role: _bytes(secret) for role, secret in secrets.items()}
        self._open_guesses: Counter[str] = Counter()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "RoleSecrets":
        """Reads TREADLE_DASHBOARD_VIEWER and TREADLE_DASHBOARD_OPERATOR."""
        given = {role: environment[name].strip() for role, name in VARIABLES.items() if name in environment}
        for role, secret in given.items():
            if not secret:
                # More likely a mistake than a wish to have no secret.
                raise InvalidArgument(f"{VARIABLES[role]} is set but empty; give it a secret, or unset it")
        return cls(given)

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def role_of(self, secret: str) -> Role:
        """Takes a time that depends neither on the secrets nor on their length."""
        given, found = hashlib.sha256(_bytes(secret.strip())).digest(), Role.NOBODY
        for role, known in self._secrets.items():
            if hmac.compare_digest(hashlib.sha256(known).digest(), given):
                found = role
        return found

    async def authenticate(self, connection: HTTPConnection, secret: str) -> Role:
        """The role of a secret. If it is wrong, returns NOBODY after a delay, or raises 429."""
        role = self.role_of(secret)
        if role is Role.NOBODY:
            address = _network(connection)
            if self._open_guesses[address] >= MAX_CONCURRENT_GUESSES:
                raise HTTPException(
                    429, "too many wrong secrets from this address; wait a few seconds", {"retry-after": "2"}
                )
            self._open_guesses[address] += 1
            try:
                await asyncio.sleep(WRONG_SECRET_SECONDS)
            finally:
                self._open_guesses[address] -= 1
                self._open_guesses += Counter()  # removes the addresses at zero
        return role

    def sign_session(self, role: Role, name: str) -> str:
        """The session cookie of a visitor who signed in with the secret of this role."""
        return self._serializer(role).dumps({"role": role.name, "name": name})

    async def __call__(self, connection: HTTPConnection) -> Visitor | None:
        scheme, _, token = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            # Headers are decoded as Latin-1, whatever encoding the client used.
            role = await self.authenticate(connection, token.encode("latin-1").decode(errors="replace"))
            return Visitor(role, f"token ({role.name.lower()})", by_token=True) if role else None
        return self._read_session(get_cookie(connection, SESSION))

    def _read_session(self, cookie: str) -> Visitor | None:
        for role in self._secrets:
            try:
                session = self._serializer(role).loads(cookie, max_age=SESSION_SECONDS)
            except BadSignature:
                continue
            if isinstance(session, dict) and session.get("role") == role.name:
                return Visitor(role, str(session["name"]), signed_in=True)
        return None

    def _serializer(self, role: Role) -> URLSafeTimedSerializer:
        # The key is derived from the secret, so that changing the secret ends all of its sessions.
        key = hashlib.sha256(b"treadle dashboard %s %s" % (role.name.encode(), self._secrets[role])).hexdigest()
        return URLSafeTimedSerializer(key, salt="treadle.session")


def _network(connection: HTTPConnection) -> str:
    host = connection.client.host if connection.client else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    # A client with one address of an IPv6 network usually has the whole /64.
    return str(ip_network((address, 64), strict=False) if isinstance(address, IPv6Address) else address)


def _bytes(secret: str) -> bytes:
    return secret.encode(errors="surrogateescape")
