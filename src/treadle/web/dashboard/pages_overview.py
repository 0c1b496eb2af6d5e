"""The whole queue on one page, and the question before a pause."""

from typing import Any

from starlette.responses import Response

from treadle.app import Treadle
from treadle.operations.overview import STEPS
from treadle.web.dashboard.access import Role
from treadle.web.dashboard.charts import panel
from treadle.web.dashboard.live import Glance, Live
from treadle.web.dashboard.render import fragment, page
from treadle.web.dashboard.routes import Asked, Rule
from treadle.words.masking import masked

WINDOWS = ((3600, "1 h"), (21_600, "6 h"), (86_400, "24 h"), (604_800, "7 d"))
REGIONS = {
    "totals": "parts/totals.html",
    "charts": "parts/charts.html",
    "pauses": "parts/pauses.html",
    "running": "parts/running.html",
    "workers": "parts/workers_short.html",
    "lanes": "parts/lanes.html",
}


def window_of(asked: Asked) -> int:
    """What is not offered is the first that is."""
    given = asked.field("window") or ""
    return int(given) if given in {str(each) for each in STEPS} else WINDOWS[0][0]


def regions(root: str, role: Role, glance: Glance) -> dict[str, str]:
    """The parts of the page that change, by their ids."""
    # Without a proof, which is a browser's own: its script puts it in.
    values = shown(glance, proof="")
    return {name: fragment(root, role, template, **values) for name, template in REGIONS.items()}


def shown(glance: Glance, proof: str) -> dict[str, Any]:
    # Their types and queues are needed as they are, to resume them.
    pauses = [each._replace(reason=masked(each.reason)) for each in glance.seen.pauses]
    return {
        "proof": proof,
        "seen": glance.seen._replace(pauses=pauses),
        "running": masked(glance.running),
        "more": glance.more,
        "panel": panel(glance.seen.spans, glance.seen.step),
    }


def rules(app: Treadle, live: Live) -> list[Rule]:
    async def overview(asked: Asked) -> Response:
        window = window_of(asked)
        glance = await live.glance(window)
        return page(asked, "overview.html", window=window, windows=WINDOWS, **shown(glance, asked.proof))

    async def pause(asked: Asked) -> Response:
        return page(asked, "pause.html", job_type=asked.field("job_type"), queue=asked.field("queue"))

    return [
        Rule("GET", "/", overview, Role.VIEWER, "Overview"),
        Rule("GET", "/pause", pause, Role.OPERATOR, "The question before a pause"),
    ]
