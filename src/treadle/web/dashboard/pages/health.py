"""The findings of `treadle doctor`. The page refreshes itself."""

from typing import Any

from starlette.responses import Response

from treadle.doctor import worst
from treadle.web.dashboard.health import HealthCheck, HealthReport
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.live.regions import Regions, stream_regions
from treadle.web.dashboard.pages.remedies import of_finding
from treadle.web.dashboard.pages.rendering import fragment, page
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role

# Pages are told that the database does not answer after 2 s. An examination may take longer.
PATIENCE = 1.9


def title_of(report: HealthReport) -> str:
    """In the title of the tab, so that it can be seen while another one is open."""
    return f"Health: {worst(report.findings).value} · Treadle"


def template_values(report: HealthReport) -> dict[str, Any]:
    return {
        "findings": report.findings,
        "worst": worst(report.findings),
        "title": title_of(report),
        "examined_at": report.examined_at,
        "remedies_of": of_finding,
    }


def render_regions(mount_path: str, role: Role, report: HealthReport) -> Regions:
    html = fragment(mount_path, role, "parts/health.html", **template_values(report))
    return Regions(report.examined_at, {"health": html}, title_of(report))


def routes(check: HealthCheck, readings: Readings) -> list[RouteSpec]:
    async def health(context: Context) -> Response:
        return page(context, "health.html", **template_values(await check.report(PATIENCE)))

    async def live_health(context: Context) -> Response:
        return stream_regions(context, readings.follow("health", read, takes_turns=False), render_regions)

    async def read() -> HealthReport:
        return await check.report(PATIENCE)

    return [
        RouteSpec("GET", "/health", health, Role.VIEWER, "Problems in the queue and its database"),
        RouteSpec("GET", "/live/health", live_health, Role.VIEWER, "Updates of the health page"),
    ]
