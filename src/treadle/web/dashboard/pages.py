"""The pages."""

from starlette.responses import Response

from treadle.app import Treadle
from treadle.app.overview import aoverview
from treadle.web.dashboard.access import Role
from treadle.web.dashboard.gate import Asked, Rule
from treadle.web.dashboard.render import page


def rules(app: Treadle) -> list[Rule]:
    async def overview(asked: Asked) -> Response:
        return page(asked, "overview.html", seen=await aoverview(app))

    return [Rule("GET", "/", overview, Role.VIEWER, "Overview")]
