"""The findings of `treadle doctor`."""

from starlette.responses import Response

from treadle.doctor import worst
from treadle.web.dashboard.health import HealthCheck
from treadle.web.dashboard.pages.rendering import page
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role


def routes(check: HealthCheck) -> list[RouteSpec]:
    async def health(context: Context) -> Response:
        findings = await check.findings()
        return page(context, "health.html", findings=findings, worst=worst(findings))

    return [RouteSpec("GET", "/health", health, Role.VIEWER, "Problems in the queue and its database")]
