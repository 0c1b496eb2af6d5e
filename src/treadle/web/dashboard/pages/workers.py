"""The list of workers."""

from starlette.responses import Response

from treadle.app import Treadle
from treadle.db.queries import overview as overview_queries
from treadle.web.dashboard.pages.rendering import page
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role


def routes(app: Treadle) -> list[RouteSpec]:
    async def workers(context: Context) -> Response:
        found = await app.database.aread(overview_queries.find_recent_workers())
        return page(context, "workers.html", workers=found)

    return [RouteSpec("GET", "/workers", workers, Role.VIEWER, "Workers")]
