"""What the doctor finds, once for all who ask."""

import asyncio
import time

from treadle.app import Treadle
from treadle.doctor import Finding
from treadle.doctor.examine import aexamine
from treadle.web.dashboard.redaction import finding_veiled

# An examination asks for a lot: reloads do not pile it up.
HEALTH_SECONDS = 10.0


class Health:
    """As it was some seconds ago at most."""

    def __init__(self, app: Treadle) -> None:
        self._app = app
        self._found: list[Finding] = []
        self._at = -HEALTH_SECONDS
        self._asking: asyncio.Lock | None = None

    async def findings(self) -> list[Finding]:
        # Made here: a lock belongs to the event loop that first waits for it.
        self._asking = self._asking or asyncio.Lock()
        async with self._asking:
            if time.monotonic() - self._at >= HEALTH_SECONDS:
                self._found = [finding_veiled(each) for each in await aexamine(self._app.database)]
                self._at = time.monotonic()
            return self._found
