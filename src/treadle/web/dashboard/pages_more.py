"""Workers, audit, health."""

import asyncio
import time

from starlette.responses import Response

from treadle.app import Treadle
from treadle.app.doctor import aexamine
from treadle.db import operate
from treadle.db import overview as looks
from treadle.web.dashboard.access import Role
from treadle.web.dashboard.gate import Asked, Rule
from treadle.web.dashboard.render import page
from treadle.words.health.finding import Finding, worst

AUDIT_PAGE = 100
# An examination asks for a lot: reloads do not pile it up.
HEALTH_SECONDS = 10.0


class Health:
    """What the doctor found some seconds ago at most."""

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
                self._found = await aexamine(self._app)
                self._at = time.monotonic()
            return self._found


def rules(app: Treadle) -> list[Rule]:
    doctor = Health(app)

    async def workers(asked: Asked) -> Response:
        found = await app.database.alook(looks.see_workers(app.schema))
        return page(asked, "workers.html", workers=found)

    async def audit(asked: Asked) -> Response:
        given = asked.field("before") or ""
        before = int(given) if given.isascii() and given.isdigit() and len(given) < 19 else None
        found = await app.database.alook(operate.audit(app.schema, None, before, AUDIT_PAGE + 1))
        return page(asked, "audit.html", lines=found[:AUDIT_PAGE], more=len(found) > AUDIT_PAGE, before=before)

    async def health(asked: Asked) -> Response:
        findings = await doctor.findings()
        return page(asked, "health.html", findings=findings, worst=worst(findings))

    return [
        Rule("GET", "/health", health, Role.VIEWER, "What makes the queue ill"),
        Rule("GET", "/workers", workers, Role.VIEWER, "Workers"),
        Rule("GET", "/audit", audit, Role.VIEWER, "What operators changed"),
    ]
