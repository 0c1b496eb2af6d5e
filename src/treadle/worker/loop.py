"""Calls a service again and again. A service is a plain async function; what it raises because the database is away is
tried again next time, and whatever else it raises is logged and does not stop it."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from treadle.db.line import DatabaseAway

log = logging.getLogger("treadle")


async def forever(
    service: Callable[[], Awaitable[object]], every: float, away: Callable[[DatabaseAway | None], None] | None = None
) -> None:
    while True:
        # Jitter: a hundred workers that were started together do not do it together.
        await asyncio.sleep(every * random.uniform(0.9, 1.1))  # noqa: S311 - jitter, not a secret
        try:
            await service()
        except DatabaseAway as error:
            if away is not None:
                away(error)
        except Exception:
            log.exception("%s failed; it will be tried again", getattr(service, "__name__", service))


async def unbroken(part: Callable[[], Awaitable[object]]) -> None:
    """Something that goes on by itself, and goes on again if it fails: a worker without it would only look alive."""
    while True:
        try:
            await part()
        except Exception:
            log.exception("%s failed; it is started again", getattr(part, "__qualname__", part))
            await asyncio.sleep(1)
        else:
            return


async def within(what: Awaitable[object], seconds: float) -> bool:
    """Whether it came within that time."""
    try:
        # Not wait_for(): before Python 3.12 it loses a cancellation that comes together with what is waited for.
        async with asyncio.timeout(max(0.0, seconds)):
            await what
    except TimeoutError:
        return False
    return True
