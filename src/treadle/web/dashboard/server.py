"""The server behind `treadle dashboard`."""

import asyncio
import itertools
import socket
from ipaddress import ip_address
from typing import NamedTuple

import uvicorn

from treadle.app.treadle import Treadle
from treadle.db.reconnecting import Outage, reconnect_delay
from treadle.text.log import log
from treadle.web.dashboard.app import dashboard_app
from treadle.web.dashboard.pages.live.readings import finish_reads
from treadle.web.dashboard.security.local_only import local_only
from treadle.web.dashboard.security.role_secrets import RoleSecrets
from treadle.words.errors import DatabaseUnreachable, TreadleError

# For pages, streams and API clients together; further connections get a 503.
MAX_CONNECTIONS = 1000


class Address(NamedTuple):
    family: int
    host: str
    flow: int = 0
    scope: int = 0
    """IPv6 only: the network interface."""


def has_secrets() -> bool:
    """Whether a secret is set in the environment."""
    return bool(RoleSecrets.from_environment())


def resolve(host: str) -> list[Address]:
    """All addresses of a host name. Listen on one of these: resolving the name again might give another address."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise TreadleError(f"cannot resolve {host!r}: {reason}") from None
    return [Address(family, str(where[0]), *map(int, where[2:])) for family, _, _, _, where in found]


def is_loopback(address: Address) -> bool:
    return ip_address(address.host).is_loopback


def serve(app: Treadle, address: Address, port: int, with_secrets: bool) -> int:
    """Runs until SIGTERM or Ctrl-C."""
    return asyncio.run(_serve(app, address, port, with_secrets))


async def _serve(app: Treadle, address: Address, port: int, with_secrets: bool) -> int:
    await _reach_database(app)
    asgi = dashboard_app(app, authorize=None if with_secrets else local_only)
    config = uvicorn.Config(
        asgi,
        log_level="warning",
        timeout_graceful_shutdown=2,
        limit_concurrency=MAX_CONNECTIONS,
        server_header=False,
        lifespan="off",
    )
    listening = _listen(address, port)
    name = f"[{address.host}]" if ":" in address.host else address.host
    log.info("the dashboard is at http://%s:%s", name, listening.getsockname()[1])
    try:
        await uvicorn.Server(config).serve([listening])
    finally:
        await finish_reads()
        await app.aclose()
    return 0


async def _reach_database(app: Treadle) -> None:
    """Wait for the database, which may start later. A missing schema is reported before the server starts."""
    outage = Outage()
    for failures in itertools.count(1):
        try:
            await asyncio.to_thread(lambda: app.database.url)
        except DatabaseUnreachable as error:
            if outage.failed():
                log.error("the database is unavailable, waiting for it: %s", error)
            await asyncio.sleep(reconnect_delay(failures))
        else:
            if outage.succeeded() is not None:
                log.warning("the database is back")
            return


def _listen(address: Address, port: int) -> socket.socket:
    listening = socket.socket(address.family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        more = (address.flow, address.scope) if address.family == socket.AF_INET6 else ()
        listening.bind((address.host, port, *more))
    except OSError as error:
        listening.close()
        raise TreadleError(
            f"cannot listen on {address.host}, port {port}: {error.strerror}; choose another --port"
        ) from None
    return listening
