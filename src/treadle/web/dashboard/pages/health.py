"""The findings of `treadle doctor`. The page refreshes itself."""

from typing import Any

from treadle.web.dashboard.health import HealthCheck, HealthReport
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.live.regions import LivePage, everything
from treadle.web.dashboard.pages.remedies import of_finding
from treadle.web.dashboard.routes import RouteSpec

# Pages are told that the database does not answer after 2 s. An examination may take longer.
PATIENCE = 1.9


PAGE = LivePage("/health", "health.html", {"health": "parts/health.html"}, takes_turns=False)


def template_values(report: HealthReport, selection: None) -> dict[str, Any]:
    return {
        "at": report.examined_at,
        "findings": report.findings,
        "worst": report.level,
        # In the title of the tab, so that it can be seen while another one is open.
        "title": f"Health: {report.level.value} · Treadle",
        "examined_at": report.examined_at,
        "remedies_of": of_finding,
    }


def routes(check: HealthCheck, readings: Readings) -> list[RouteSpec]:
    return PAGE.routes(readings, everything, lambda _: lambda: check.report(PATIENCE), template_values)
