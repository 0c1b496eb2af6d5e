"""Workers, audit, health."""

from starlette.responses import Response

from treadle.app import Treadle
from treadle.db.queries import operations as operate
from treadle.db.queries import overview as looks
from treadle.doctor import worst
from treadle.web.dashboard.access import Role
from treadle.web.dashboard.health import Health
from treadle.web.dashboard.render import page
from treadle.web.dashboard.routes import Asked, Rule
from treadle.words.masking import masked

AUDIT_PAGE = 100


def rules(app: Treadle, doctor: Health) -> list[Rule]:
    async def workers(asked: Asked) -> Response:
        found = await app.database.alook(looks.find_recent_workers())
        return page(asked, "workers.html", workers=found)

    async def audit(asked: Asked) -> Response:
        given = asked.field("before") or ""
        before = int(given) if given.isascii() and given.isdigit() and len(given) < 19 else None
        found = masked(await app.database.alook(operate.find_audit(None, before, AUDIT_PAGE + 1)))
        return page(asked, "audit.html", lines=found[:AUDIT_PAGE], more=len(found) > AUDIT_PAGE, before=before)

    async def health(asked: Asked) -> Response:
        findings = await doctor.findings()
        return page(asked, "health.html", findings=findings, worst=worst(findings))

    return [
        Rule("GET", "/health", health, Role.VIEWER, "What makes the queue ill"),
        Rule("GET", "/workers", workers, Role.VIEWER, "Workers"),
        Rule("GET", "/audit", audit, Role.VIEWER, "What operators changed"),
    ]
