"""Reads the state of the queue from the database at an interval, through outages."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from treadle.app.treadle import Treadle
from treadle.db.database import DatabaseError
from treadle.db.queries import error_groups as group_queries
from treadle.db.queries import limits as limit_queries
from treadle.db.queries import schedules as schedule_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.operations.overview import aoverview
from treadle.text.masking import masked
from treadle.words.error_group import ErrorGroups
from treadle.words.errors import DatabaseUnreachable, NotAllowed, SchemaError, TooSlow
from treadle.words.limit_status import LimitStatus
from treadle.words.overview import Overview
from treadle.words.schedule_status import ScheduleList
from treadle.words.snapshot import JobSnapshot

# Seconds between two refreshes. A slow database is read less often, so that reading takes at most a third of the time.
SECONDS = 1.0
LONGEST = 10.0
SHARE = 2
# Jobs shown at most.
LIMIT = 500
# Schedules shown at most, with 20 occurrences each; a filter finds the others.
SCHEDULES = 100
# Limits and keys of limits shown at most, those that jobs wait for first.
LIMITS = 100
# Groups of errors shown at most: those with the most failures within 24 hours, as treadle errors lists them.
GROUPS = 100
UNMUTED = group_queries.GroupFilter(muted=False, order="failures")
# A refresh that takes longer is abandoned: a connection can die without an error.
TIMEOUT = 5.0
# Seconds without a reply after which the screen says so.
UNAVAILABLE_AFTER = 3.0

# TimeoutError is a subclass of OSError.
DISCONNECTED = (DatabaseError, OSError, DatabaseUnreachable)
UNAVAILABLE = (*DISCONNECTED, NotAllowed, SchemaError, TooSlow)

Result = TypeVar("Result")
View: TypeAlias = Literal["running", "failed", "errors", "schedules", "limits"]


class QueueSnapshot(NamedTuple):
    overview: Overview
    view: View
    jobs: list[JobSnapshot]
    """The running jobs, or those that failed recently."""
    limits: list[LimitStatus]
    schedules: ScheduleList | None = None
    errors: ErrorGroups | None = None


class Refresher:
    def __init__(self, app: Treadle) -> None:
        self._app = app
        self.view: View = "running"
        """What the lower table shows."""
        self.search = ""
        """A part of the name or job type of the schedules to read."""
        self.interval = SECONDS
        """Seconds until the next refresh."""
        self._answered = time.monotonic()
        self._failures = 0

    @property
    def unavailable_for(self) -> float | None:
        """For how many seconds the database has not replied; None if it replies."""
        seconds = time.monotonic() - self._answered
        return seconds if self._failures or seconds > UNAVAILABLE_AFTER else None

    async def refresh(self) -> QueueSnapshot | None:
        return await self.run(self._take_snapshot)

    async def run(self, read: Callable[[], Awaitable[Result]]) -> Result | None:
        """What `read` returns; None if the database is unavailable."""
        reading = asyncio.ensure_future(read())
        # Its error is of no interest once it is abandoned.
        reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            # Not with asyncio.timeout(): if no reply comes, the driver takes another 5 s to cancel a statement.
            await asyncio.wait({reading}, timeout=TIMEOUT)
            if not reading.done():
                raise TimeoutError
            result = reading.result()
        except UNAVAILABLE as error:
            self._failures += 1
            # After the first failure the pool replaces the lost connection by itself.
            if isinstance(error, TimeoutError) or (self._failures > 1 and isinstance(error, DISCONNECTED)):
                await self._replace_pool()
            return None
        finally:
            reading.cancel()
        self._failures, self._answered = 0, time.monotonic()
        return result

    async def _take_snapshot(self) -> QueueSnapshot:
        began = time.monotonic()
        view = self.view
        # Read together with the number of running jobs, so that the two agree.
        overview = await aoverview(self._app.database, running=LIMIT if view == "running" else 0)
        # Their types and queues are needed unmasked, to resume them.
        pauses = [each._replace(reason=masked(each.reason)) for each in overview.pauses]
        overview = overview._replace(pauses=pauses)
        # Their names and keys are needed unmasked, to pause them.
        limits = await self._app.database.aread(limit_queries.find(limit=LIMITS))
        if view == "limits":
            snapshot = QueueSnapshot(overview, view, [], limits)
        elif view == "schedules":
            snapshot = QueueSnapshot(overview, view, [], limits, await self._find_schedules())
        elif view == "errors":
            found = await self._app.database.aread(group_queries.find_groups(UNMUTED, GROUPS))
            snapshot = QueueSnapshot(overview, view, [], limits, errors=masked(found))
        elif view == "failed":
            failed = await self._app.database.aread(snapshot_queries.find_failed_jobs(3600, LIMIT))
            snapshot = QueueSnapshot(overview, view, masked(failed), limits)
        else:
            snapshot = QueueSnapshot(overview, view, masked(list(overview.running)), limits)
        self.interval = min(LONGEST, max(SECONDS, SHARE * (time.monotonic() - began)))
        return snapshot

    async def _find_schedules(self) -> ScheduleList:
        query = schedule_queries.find_statuses(limit=SCHEDULES, search=self.search[:100] or None)
        found = await self._app.database.aread(query)
        # Their names are needed unmasked, to pause them.
        return found._replace(schedules=[each._replace(error=masked(each.error)) for each in found.schedules])

    async def first_snapshot(self) -> QueueSnapshot:
        """Called before the screen is drawn, so errors are raised instead of shown on it."""
        return await self._take_snapshot()

    async def _replace_pool(self) -> None:
        """Close the pool; the next query opens a new one. A pool that lost its connections backs off for longer and
        longer between attempts to reconnect, a new one connects at once."""
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._app.database.aclose()
        except UNAVAILABLE:
            return
