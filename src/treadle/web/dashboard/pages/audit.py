"""The audit: what operators changed, newest first."""

from starlette.responses import Response

from treadle.app import Treadle
from treadle.db.queries import operations as operation_queries
from treadle.web.dashboard.pages.rendering import page
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.words.masking import masked

PAGE_SIZE = 100


def routes(app: Treadle) -> list[RouteSpec]:
    async def audit(context: Context) -> Response:
        given = context.field("before") or ""
        before = int(given) if given.isascii() and given.isdigit() and len(given) < 19 else None
        found = masked(await app.database.aread(operation_queries.find_audit(None, before, PAGE_SIZE + 1)))
        return page(context, "audit.html", entries=found[:PAGE_SIZE], more=len(found) > PAGE_SIZE, before=before)

    return [RouteSpec("GET", "/audit", audit, Role.VIEWER, "Audit log")]
