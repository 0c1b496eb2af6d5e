"""The findings of `treadle doctor`."""

from typing import Any

from starlette.responses import Response

from treadle.doctor import Finding, worst
from treadle.web.dashboard.health import HealthCheck
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.live.regions import Regions, stream_regions
from treadle.web.dashboard.pages.remedies import of_finding
from treadle.web.dashboard.pages.rendering import content, page
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role

# Less than the time in which every page answers.
PAGE_FINDINGS_SECONDS = 2.5


def render(mount_path: str, role: Role, findings: list[Finding]) -> Regions:
    return Regions(None, {"content": content(mount_path, role, "health.html", **template_values(findings))})


def template_values(findings: list[Finding]) -> dict[str, Any]:
    return {"findings": findings, "worst": worst(findings), "remedies_of": of_finding}


def routes(check: HealthCheck, readings: Readings) -> list[RouteSpec]:
    async def live(context: Context) -> Response:
        return stream_regions(context, readings.follow("health", read), render)

    async def read() -> list[Finding]:
        await check.reach_database()
        return await check.findings(PAGE_FINDINGS_SECONDS)

    async def health(context: Context) -> Response:
        findings = await check.findings(PAGE_FINDINGS_SECONDS)
        return page(context, "health.html", **template_values(findings))

    return [
        RouteSpec("GET", "/health", health, Role.VIEWER, "Problems in the queue and its database"),
        RouteSpec("GET", "/live/health", live, Role.VIEWER, "Live updates of the problems"),
    ]
