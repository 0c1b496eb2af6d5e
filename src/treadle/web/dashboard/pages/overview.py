"""The overview of the whole queue, and the page that confirms a pause."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from starlette.responses import Response

from treadle.app import Treadle
from treadle.db.queries import dashboard as dashboard_queries
from treadle.db.queries import overview as overview_queries
from treadle.db.queries.dashboard import RecentFailures
from treadle.db.query import Query
from treadle.operations.overview import STEPS, aoverview
from treadle.operations.slots import SlotMap, make_slot_map
from treadle.operations.verdict import Verdict, VerdictReader
from treadle.web.dashboard.pages.charts import panel
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.live.regions import Regions, stream_regions
from treadle.web.dashboard.pages.rendering import fragment, page
from treadle.web.dashboard.pages.slots import draw_slots
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.web.dashboard.urls import local_path
from treadle.words.marks import Mark
from treadle.words.masking import masked
from treadle.words.overview import Overview
from treadle.words.snapshot import JobSnapshot

# Running jobs that are listed.
MAX_RUNNING = 10
# Open pages with charts of different windows share what was read this long ago.
SHARED_SECONDS = 1.0
# What is wrong is judged this often, for all pages together; marks are read less often.
VERDICT_SECONDS = 5.0
MARKS_SECONDS = 10.0
WINDOWS = ((3600, "1 h"), (21_600, "6 h"), (86_400, "24 h"), (604_800, "7 d"))
REGIONS = {
    "verdict": "parts/verdict.html",
    "now": "parts/now.html",
    "charts": "parts/charts.html",
    "pauses": "parts/pauses.html",
    "slots": "parts/slots.html",
    "running": "parts/running.html",
    "lanes": "parts/lanes.html",
    "totals": "parts/totals.html",
}


class OverviewUpdate(NamedTuple):
    overview: Overview
    """With the time spans of the requested window."""
    running: list[JobSnapshot]
    more: bool
    """More jobs are running than are listed."""
    slots: SlotMap
    failures: RecentFailures
    verdicts: Sequence[Verdict]
    """The most severe first; never empty."""
    marks: Sequence[Mark] = ()


def window_of(context: Context) -> int:
    """The window of the charts in seconds; one hour if the parameter is missing or not one of the choices."""
    given = context.field("window") or ""
    return int(given) if given in {str(each) for each in STEPS} else WINDOWS[0][0]


def render_regions(mount_path: str, role: Role, update: OverviewUpdate) -> Regions:
    # Without a CSRF token, which differs between browsers: the script on the page fills it in.
    values = template_values(update, csrf_token="")
    html = {name: fragment(mount_path, role, template, **values) for name, template in REGIONS.items()}
    return Regions(update.overview.at, html)


def template_values(update: OverviewUpdate, **more: Any) -> dict[str, Any]:
    # Their types and queues are needed unmasked, to resume them.
    pauses = [each._replace(reason=masked(each.reason)) for each in update.overview.pauses]
    due = [each for each in update.overview.lanes if each.due_since is not None]
    return {
        "overview": update.overview._replace(pauses=pauses),
        "oldest": min(due, key=lambda each: each.due_since or update.overview.at, default=None),
        "running": masked(update.running),
        "more": update.more,
        "panel": panel(update.overview.spans, update.overview.step, masked(update.marks)),
        "slots": update.slots,
        "drawn": draw_slots(update.slots),
        "failures": update.failures,
        "verdicts": update.verdicts,
        **more,
    }


def routes(app: Treadle, readings: Readings) -> list[RouteSpec]:
    judge = VerdictReader(app.database)

    async def read_live(window: int) -> OverviewUpdate:
        return await with_window(window, await readings.recent("overview", read, SHARED_SECONDS))

    async def with_window(window: int, shared: OverviewUpdate) -> OverviewUpdate:
        """Only the charts differ between windows."""
        query = dashboard_queries.find_marks(window)
        marks = await readings.recent(("marks", window), lambda: app.database.aread(query), MARKS_SECONDS)
        shared = shared._replace(marks=marks)
        if window == WINDOWS[0][0]:
            return shared
        chart = await app.database.aread(overview_queries.get_throughput(window, STEPS[window]))
        return shared._replace(overview=shared.overview._replace(spans=chart.spans, step=chart.step))

    async def read() -> OverviewUpdate:
        found = await aoverview(app.database, WINDOWS[0][0], MAX_RUNNING + 1)
        queries: list[Query[Any]] = [
            dashboard_queries.find_slots(),
            dashboard_queries.get_recent_failures(),
        ]
        claimed, failures = await app.database.aread_together(queries)
        return OverviewUpdate(
            found,
            list(found.running[:MAX_RUNNING]),
            len(found.running) > MAX_RUNNING,
            make_slot_map(found.workers, claimed),
            failures,
            await readings.recent("verdict", judge.aread, VERDICT_SECONDS),
        )

    async def overview(context: Context) -> Response:
        window = window_of(context)
        update = await with_window(window, await read())
        return page(context, "overview.html", window=window, windows=WINDOWS, **template_values(update))

    async def live(context: Context) -> Response:
        window = window_of(context)
        updates = readings.follow(("overview", window), lambda: read_live(window))
        return stream_regions(context, updates, render_regions)

    async def confirm_pause(context: Context) -> Response:
        back = local_path(context.field("back")) or "/"
        return page(context, "pause.html", job_type=context.field("job_type"), queue=context.field("queue"), back=back)

    return [
        RouteSpec("GET", "/", overview, Role.VIEWER, "Overview"),
        RouteSpec("GET", "/live/overview", live, Role.VIEWER, "Live updates of the overview"),
        RouteSpec("GET", "/pause", confirm_pause, Role.OPERATOR, "Confirm a pause"),
    ]
