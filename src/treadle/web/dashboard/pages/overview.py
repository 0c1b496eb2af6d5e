"""The overview of the whole queue, and the page that confirms a pause."""

from typing import Any

from starlette.responses import Response

from treadle.operations.overview import STEPS
from treadle.web.dashboard.pages.charts import panel
from treadle.web.dashboard.pages.live_updates import LiveUpdates, OverviewUpdate
from treadle.web.dashboard.pages.rendering import fragment, page
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.words.masking import masked

WINDOWS = ((3600, "1 h"), (21_600, "6 h"), (86_400, "24 h"), (604_800, "7 d"))
REGIONS = {
    "totals": "parts/totals.html",
    "charts": "parts/charts.html",
    "pauses": "parts/pauses.html",
    "running": "parts/running.html",
    "workers": "parts/workers.html",
    "lanes": "parts/lanes.html",
}


def window_of(context: Context) -> int:
    """The window of the charts in seconds; one hour if the parameter is missing or not one of the choices."""
    given = context.field("window") or ""
    return int(given) if given in {str(each) for each in STEPS} else WINDOWS[0][0]


def render_regions(mount_path: str, role: Role, update: OverviewUpdate) -> dict[str, str]:
    """The parts of the page that change, by their element ids."""
    # Without a CSRF token, which differs between browsers: the script on the page fills it in.
    values = template_values(update, csrf_token="")
    return {name: fragment(mount_path, role, template, **values) for name, template in REGIONS.items()}


def template_values(update: OverviewUpdate, **more: Any) -> dict[str, Any]:
    # Their types and queues are needed unmasked, to resume them.
    pauses = [each._replace(reason=masked(each.reason)) for each in update.overview.pauses]
    return {
        "overview": update.overview._replace(pauses=pauses),
        "running": masked(update.running),
        "more": update.more,
        "panel": panel(update.overview.spans, update.overview.step),
        **more,
    }


def routes(live: LiveUpdates) -> list[RouteSpec]:
    async def overview(context: Context) -> Response:
        window = window_of(context)
        update = await live.get_overview(window)
        return page(context, "overview.html", window=window, windows=WINDOWS, **template_values(update))

    async def confirm_pause(context: Context) -> Response:
        return page(context, "pause.html", job_type=context.field("job_type"), queue=context.field("queue"))

    return [
        RouteSpec("GET", "/", overview, Role.VIEWER, "Overview"),
        RouteSpec("GET", "/pause", confirm_pause, Role.OPERATOR, "Confirm a pause"),
    ]
