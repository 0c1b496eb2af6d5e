"""Looks at the database again and again, while it may go away and come back."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from treadle.app import Treadle
from treadle.db.database import DatabaseError
from treadle.db.queries import snapshots as snapshot_queries
from treadle.operations.overview import aoverview
from treadle.words.errors import DatabaseUnreachable, NotAllowed, SchemaError, TooSlow
from treadle.words.masking import masked
from treadle.words.overview import Overview
from treadle.words.snapshot import JobSnapshot

# Between two looks, at least; and at most, for a database that takes its time: looking is a third of it, not more.
SECONDS = 1.0
LONGEST = 10.0
SHARE = 2
LIMIT = 500
# A look that takes longer is given up: the connection may be dead without a word.
PATIENCE = 5.0
# Without an answer for so long, it is said.
SILENCE = 3.0

# A TimeoutError is an OSError.
LOST = (DatabaseError, OSError, DatabaseUnreachable)
AWAY = (*LOST, NotAllowed, SchemaError, TooSlow)

Found = TypeVar("Found")


class Glance(NamedTuple):
    overview: Overview
    jobs: list[JobSnapshot]
    failed: bool
    """They are those that failed lately, and not those that run."""


class Looks:
    def __init__(self, app: Treadle) -> None:
        self._app = app
        self.failed = False
        """Whether failed jobs are looked at instead of those that run."""
        self.spacing = SECONDS
        """Seconds until the next look."""
        self._answered = time.monotonic()
        self._failures = 0

    @property
    def away(self) -> float | None:
        """For how many seconds the database has been; None: it is there."""
        silent = time.monotonic() - self._answered
        return silent if self._failures or silent > SILENCE else None

    async def glance(self) -> Glance | None:
        return await self.ask(self._glance)

    async def ask(self, look: Callable[[], Awaitable[Found]]) -> Found | None:
        """None: the database is away."""
        try:
            async with asyncio.timeout(PATIENCE):
                found = await look()
        except AWAY as error:
            self._failures += 1
            # A connection that was cut the pool makes anew by itself, at first.
            if isinstance(error, TimeoutError) or (self._failures > 1 and isinstance(error, LOST)):
                await self._begin_anew()
            return None
        self._failures, self._answered = 0, time.monotonic()
        return found

    async def _glance(self) -> Glance:
        began = time.monotonic()
        overview = await aoverview(self._app)
        wanted = (
            snapshot_queries.find_failed(3600, LIMIT) if self.failed else snapshot_queries.find_snapshots((), LIMIT)
        )
        # Their types and queues are needed as they are, to resume them.
        pauses = [each._replace(reason=masked(each.reason)) for each in overview.pauses]
        overview = overview._replace(pauses=pauses)
        glance = Glance(overview, masked(await self._app.database.alook(wanted)), self.failed)
        self.spacing = min(LONGEST, max(SECONDS, SHARE * (time.monotonic() - began)))
        return glance

    async def first(self) -> Glance:
        """Before there is a screen: what is wrong is raised."""
        return await self._glance()

    async def _begin_anew(self) -> None:
        """A pool that has lost its connections waits longer and longer between attempts; a new one begins at once."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._app.database.aclose()
        except AWAY:
            return
