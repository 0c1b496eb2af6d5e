"""Workers, audit, health."""

import asyncio
import time

from starlette.responses import Response

from treadle.app import Treadle
from treadle.db import operate
from treadle.db import overview as looks
from treadle.web.dashboard.access import Role
from treadle.web.dashboard.gate import Asked, Rule
from treadle.web.dashboard.render import page

AUDIT_PAGE = 100


def rules(app: Treadle) -> list[Rule]:
    async def workers(asked: Asked) -> Response:
        found = await app.database.alook(looks.see_workers(app.schema))
        return page(asked, "workers.html", workers=found)

    async def audit(asked: Asked) -> Response:
        given = asked.field("before") or ""
        before = int(given) if given.isascii() and given.isdigit() and len(given) < 19 else None
        found = await app.database.alook(operate.audit(app.schema, None, before, AUDIT_PAGE + 1))
        return page(asked, "audit.html", lines=found[:AUDIT_PAGE], more=len(found) > AUDIT_PAGE, before=before)

    return [
        Rule("GET", "/workers", workers, Role.VIEWER, "Workers"),
        Rule("GET", "/audit", audit, Role.VIEWER, "What operators changed"),
    ]
