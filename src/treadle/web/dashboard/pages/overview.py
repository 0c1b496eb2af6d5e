"""The overview of the whole queue, and the page that confirms a pause."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from starlette.responses import Response

from treadle.app.treadle import Treadle
from treadle.db.queries import dashboard as dashboard_queries
from treadle.db.queries import overview as overview_queries
from treadle.db.queries import snapshots as snapshot_queries
from treadle.db.queries.dashboard import RecentFailures
from treadle.db.queries.overview import Chart
from treadle.db.query import Query
from treadle.operations.overview import STEPS, make_overview
from treadle.operations.slots import SlotMap, make_slot_map
from treadle.operations.state import QueueState, aread_state
from treadle.operations.verdict import Verdict, VerdictReader, with_findings
from treadle.text.masking import masked
from treadle.web.dashboard.health import HealthCheck
from treadle.web.dashboard.pages.charts import panel
from treadle.web.dashboard.pages.forms import job_type_of
from treadle.web.dashboard.pages.live.readings import Reading, Readings
from treadle.web.dashboard.pages.live.regions import Regions, stream_regions
from treadle.web.dashboard.pages.live.shared import CHART_SECONDS, SHARED_SECONDS, SharedReads
from treadle.web.dashboard.pages.rendering import fragment, page
from treadle.web.dashboard.pages.slots import draw_slots
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.web.dashboard.urls import local_path
from treadle.words.overview import Mark, Overview
from treadle.words.snapshot import JobSnapshot

# Running jobs that are listed.
MAX_RUNNING = 10
WINDOWS = ((3600, "1 h"), (21_600, "6 h"), (86_400, "24 h"), (604_800, "7 d"))
REGIONS = {
    "verdict": "parts/verdict.html",
    "now": "parts/now.html",
    "pauses": "parts/pauses.html",
    "slots": "parts/slots.html",
    "running": "parts/running.html",
    "lanes": "parts/lanes.html",
    "totals": "parts/totals.html",
}


class OverviewNow(NamedTuple):
    overview: Overview
    running: list[JobSnapshot]
    more: bool
    """More jobs are running than are listed."""
    slots: SlotMap
    failures: RecentFailures
    verdicts: Sequence[Verdict]
    """The most severe first; never empty."""


class Charts(NamedTuple):
    chart: Chart
    marks: Sequence[Mark]


class OverviewUpdate(NamedTuple):
    now: Reading[OverviewNow]
    charts: Reading[Charts]


def window_of(context: Context) -> int:
    """The window of the charts in seconds; one hour if the parameter is missing or not one of the choices."""
    given = context.field("window") or ""
    return int(given) if given in {str(each) for each in STEPS} else WINDOWS[0][0]


def render_regions(mount_path: str, role: Role, update: OverviewUpdate) -> Regions:
    def render_now(now: OverviewNow) -> dict[str, str]:
        values = template_values(now)
        return {name: fragment(mount_path, role, template, **values) for name, template in REGIONS.items()}

    def render_charts(charts: Charts) -> dict[str, str]:
        return {"charts": fragment(mount_path, role, "parts/charts.html", **chart_values(charts))}

    kind = mount_path, role
    html = update.now.rendered(kind, render_now) | update.charts.rendered(kind, render_charts)
    return Regions(update.now.value.overview.at, html)


def template_values(now: OverviewNow) -> dict[str, Any]:
    # Their types and queues are needed unmasked, to resume them.
    pauses = [each._replace(reason=masked(each.reason)) for each in now.overview.pauses]
    due = [each for each in now.overview.lanes if each.due_since is not None]
    return {
        "overview": now.overview._replace(pauses=pauses),
        "oldest": min(due, key=lambda each: each.due_since or now.overview.at, default=None),
        "running": masked(now.running),
        "more": now.more,
        "slots": now.slots,
        "drawn": draw_slots(now.slots),
        "failures": now.failures,
        "verdicts": now.verdicts,
    }


def chart_values(charts: Charts) -> dict[str, Any]:
    return {"panel": panel(charts.chart.spans, charts.chart.step, masked(charts.marks))}


def routes(app: Treadle, readings: Readings, shared: SharedReads, check: HealthCheck) -> list[RouteSpec]:
    judge = VerdictReader(app.database)

    async def read_verdicts() -> list[Verdict]:
        return with_findings(await judge.aread(), check.known())

    async def read_live(window: int) -> OverviewUpdate:
        charts = await shared.slowly(("charts", window), CHART_SECONDS[STEPS[window]], lambda: read_charts(window))
        return OverviewUpdate(await shared.slowly("now", SHARED_SECONDS, read_shared), charts)

    async def read_shared() -> OverviewNow:
        return await read_now(await shared.state())

    async def read_charts(window: int) -> Charts:
        queries: list[Query[Any]] = [
            overview_queries.get_throughput(window, STEPS[window]),
            dashboard_queries.find_marks(window),
        ]
        return Charts(*await app.database.aread_together(queries))

    async def read_now(state: QueueState) -> OverviewNow:
        queries: list[Query[Any]] = [
            snapshot_queries.find_snapshots([], MAX_RUNNING + 1),
            dashboard_queries.find_slots(),
            dashboard_queries.get_recent_failures(),
        ]
        running, claimed, failures = await app.database.aread_together(queries)
        found = make_overview(state, state.recent, running)
        return OverviewNow(
            found,
            list(found.running[:MAX_RUNNING]),
            len(found.running) > MAX_RUNNING,
            make_slot_map(found.workers, claimed),
            failures,
            await readings.recent("verdict", read_verdicts, SHARED_SECONDS),
        )

    async def overview(context: Context) -> Response:
        window = window_of(context)
        now = await read_now(await aread_state(app.database))
        values = template_values(now) | chart_values(await read_charts(window))
        return page(context, "overview.html", window=window, windows=WINDOWS, **values)

    async def live(context: Context) -> Response:
        window = window_of(context)
        updates = readings.follow(("overview", window), lambda: read_live(window))
        return stream_regions(context, updates, render_regions)

    async def confirm_pause(context: Context) -> Response:
        back = local_path(context.field("back")) or "/"
        return page(context, "pause.html", job_type=job_type_of(context), queue=context.field("queue"), back=back)

    return [
        RouteSpec("GET", "/", overview, Role.VIEWER),
        RouteSpec("GET", "/live/overview", live, Role.VIEWER),
        RouteSpec("GET", "/pause", confirm_pause, Role.OPERATOR),
    ]
