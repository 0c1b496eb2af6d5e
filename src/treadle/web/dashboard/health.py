"""The findings of the doctor, shared by all visitors for some seconds."""

import asyncio
import time
from contextlib import suppress

from treadle.app import Treadle
from treadle.db.queries.listing import get_clock
from treadle.doctor import Finding
from treadle.doctor.examine import aexamine
from treadle.web.dashboard.redaction import redact_finding
from treadle.words.errors import NotAllowed, SchemaError, TooSlow

# An examination runs many queries, so reloading the page must not start another one each time.
HEALTH_SECONDS = 10.0
# While an examination takes its time, the findings of the one before are shown for this long.
KEPT_SECONDS = 20.0
# An examination that takes longer is abandoned, and the next visitor starts another one.
LONGEST_SECONDS = 30.0


class HealthCheck:
    """Examines the database at most once every HEALTH_SECONDS."""

    def __init__(self, app: Treadle) -> None:
        self._app = app
        self._findings: list[Finding] = []
        self._examined_at = float("-inf")
        self._began_at = float("-inf")
        self._examination: asyncio.Task[list[Finding]] | None = None

    async def findings(self, seconds: float | None = None) -> list[Finding]:
        """If there are none within `seconds`, those of the examination before, or TooSlow."""
        if time.monotonic() - self._examined_at < HEALTH_SECONDS:
            return self._findings
        examination = self._current()
        if (await asyncio.wait({examination}, timeout=seconds))[0]:
            return examination.result()
        if time.monotonic() - self._examined_at < KEPT_SECONDS:
            return self._findings
        raise TooSlow(f"the checks take longer than {seconds:g} seconds; they go on")

    async def reach_database(self) -> None:
        """Raises an error if the database does not answer: the findings may be older than an outage."""
        with suppress(SchemaError, NotAllowed):  # which the findings explain
            await self._app.database.aread(get_clock())

    def _current(self) -> "asyncio.Task[list[Finding]]":
        running, loop = self._examination, asyncio.get_running_loop()
        if (
            running is None
            or running.done()
            or running.get_loop() is not loop
            or time.monotonic() - self._began_at > LONGEST_SECONDS
        ):
            self._began_at = time.monotonic()
            running = self._examination = asyncio.create_task(self._examine())
            # All who wait for it may be gone when it fails.
            running.add_done_callback(lambda task: task.cancelled() or task.exception())
        return running

    async def _examine(self) -> list[Finding]:
        self._findings = [redact_finding(each) for each in await aexamine(self._app.database)]
        self._examined_at = time.monotonic()
        return self._findings
