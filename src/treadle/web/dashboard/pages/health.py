"""The findings of `treadle doctor`. The page refreshes itself."""

from typing import Any

from starlette.responses import Response

from treadle.doctor import worst
from treadle.web.dashboard.health import HEALTH_SECONDS, HealthCheck, HealthReport
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.live.regions import Regions, stream_regions
from treadle.web.dashboard.pages.rendering import fragment, page
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role

# Pages are told that the database does not answer after 2 s. An examination may take longer.
PATIENCE = 1.0


def template_values(report: HealthReport) -> dict[str, Any]:
    return {"findings": report.findings, "worst": worst(report.findings), "examined_at": report.examined_at}


def render_regions(mount_path: str, role: Role, report: HealthReport) -> Regions:
    html = fragment(mount_path, role, "parts/health.html", **template_values(report))
    return Regions(report.examined_at, {"health": html})


def routes(check: HealthCheck, readings: Readings) -> list[RouteSpec]:
    async def health(context: Context) -> Response:
        return page(context, "health.html", **template_values(await check.report()))

    async def live_health(context: Context) -> Response:
        updates = readings.follow("health", lambda: check.report(PATIENCE), HEALTH_SECONDS)
        return stream_regions(context, updates, render_regions)

    return [
        RouteSpec("GET", "/health", health, Role.VIEWER, "Problems in the queue and its database"),
        RouteSpec("GET", "/live/health", live_health, Role.VIEWER, "Updates of the health page"),
    ]
