"""The dashboard as a server of its own."""

import asyncio
import logging
import socket

import uvicorn

from treadle.app import Treadle
from treadle.web.dashboard.access import Access, only_here
from treadle.web.dashboard.dashboard import dashboard_app
from treadle.words.errors import TreadleError

log = logging.getLogger("treadle")


def secured() -> bool:
    """Whether there are secrets in the environment."""
    return bool(Access.from_environment())


def serve(app: Treadle, host: str, port: int, secured: bool) -> int:
    """Until SIGTERM or Ctrl-C."""
    return asyncio.run(_serve(app, host, port, secured))


async def _serve(app: Treadle, host: str, port: int, secured: bool) -> int:
    await asyncio.to_thread(lambda: app.database.url)  # what is wrong with the database is said at once
    served = dashboard_app(app, authorize=None if secured else only_here)
    config = uvicorn.Config(
        served, host, port, log_level="warning", timeout_graceful_shutdown=2, server_header=False, lifespan="off"
    )
    listening = _listen(host, port)
    name = f"[{host}]" if ":" in host else host
    log.info("the dashboard is at http://%s:%s", name, listening.getsockname()[1])
    try:
        await uvicorn.Server(config).serve([listening])
    finally:
        await app.aclose()
    return 0


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise TreadleError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --port") from None
    return listening
