"""The findings of the doctor, shared by all visitors for some seconds."""

import asyncio
import time

from treadle.app import Treadle
from treadle.doctor import Finding
from treadle.doctor.examine import aexamine
from treadle.web.dashboard.redaction import redact_finding

# An examination runs many queries, so reloading the page must not start another one each time.
HEALTH_SECONDS = 10.0


class HealthCheck:
    """Examines the database at most once every HEALTH_SECONDS."""

    def __init__(self, app: Treadle) -> None:
        self._app = app
        self._findings: list[Finding] = []
        self._examined_at = -HEALTH_SECONDS
        self._lock: asyncio.Lock | None = None

    async def findings(self) -> list[Finding]:
        # Created here because a lock belongs to the event loop that first waits for it.
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            if time.monotonic() - self._examined_at >= HEALTH_SECONDS:
                self._findings = [redact_finding(each) for each in await aexamine(self._app.database)]
                self._examined_at = time.monotonic()
            return self._findings
