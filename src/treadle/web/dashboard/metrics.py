"""The metrics of the queue, for Prometheus."""

from starlette.responses import Response

from treadle.app.treadle import Treadle
from treadle.operations.metrics import MetricsPage
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role

# Prometheus waits this long by default.
SCRAPE_SECONDS = 10.0


def routes(app: Treadle) -> list[RouteSpec]:
    shown = MetricsPage(app.database)

    async def metrics(context: Context) -> Response:
        return Response(await shown.text(), headers={"content-type": shown.content_type})

    return [RouteSpec("GET", "/metrics", metrics, Role.VIEWER, seconds=SCRAPE_SECONDS)]
