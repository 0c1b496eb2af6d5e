"""The dashboard as a server of its own."""

import asyncio
import logging
import socket
from ipaddress import ip_address
from typing import NamedTuple

import uvicorn

from treadle.app import Treadle
from treadle.web.dashboard.access import Access, only_here
from treadle.web.dashboard.dashboard import dashboard_app
from treadle.words.errors import TreadleError

# Pages, streams and programs together; the next one is told to come back.
CONNECTIONS = 1000

log = logging.getLogger("treadle")


class Address(NamedTuple):
    family: int
    host: str
    flow: int = 0
    scope: int = 0
    """Of version 6: which network card is meant."""


def secured() -> bool:
    """Whether there are secrets in the environment."""
    return bool(Access.from_environment())


def addresses(host: str) -> list[Address]:
    """All that the name stands for. The one that is listened on is one of these: asked again, it might be another."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error)
        raise TreadleError(f"{host!r} is no address of this machine: {said}") from None
    return [Address(family, str(where[0]), *map(int, where[2:])) for family, _, _, _, where in found]


def is_loopback(address: Address) -> bool:
    return ip_address(address.host).is_loopback


def serve(app: Treadle, address: Address, port: int, secured: bool) -> int:
    """Until SIGTERM or Ctrl-C."""
    return asyncio.run(_serve(app, address, port, secured))


async def _serve(app: Treadle, address: Address, port: int, secured: bool) -> int:
    await asyncio.to_thread(lambda: app.database.url)  # what is wrong with the database is said at once
    served = dashboard_app(app, authorize=None if secured else only_here)
    config = uvicorn.Config(
        served,
        log_level="warning",
        timeout_graceful_shutdown=2,
        limit_concurrency=CONNECTIONS,
        server_header=False,
        lifespan="off",
    )
    listening = _listen(address, port)
    name = f"[{address.host}]" if ":" in address.host else address.host
    log.info("the dashboard is at http://%s:%s", name, listening.getsockname()[1])
    try:
        await uvicorn.Server(config).serve([listening])
    finally:
        await app.aclose()
    return 0


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
