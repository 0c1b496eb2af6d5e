"""The style sheets, scripts and icon: served from the package, without a role."""

from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath

from starlette.exceptions import HTTPException
from starlette.responses import Response

from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role

_MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# style.css consists of these, in this order: a later rule overrides an earlier one.
_STYLES = (
    *("base", "header", "controls", "tables", "overview", "charts", "places", "slots", "jobs", "job"),
    *("graph", "schedules", "limits", "errors", "health", "dialogs", "stale", "phone", "preferences"),
)


def routes() -> list[RouteSpec]:
    return [RouteSpec("GET", "/assets/{name}", asset, Role.NOBODY)]


async def asset(context: Context) -> Response:
    name = context.request.path_params["name"]
    assets = _assets()
    if name not in assets:
        raise HTTPException(404, f"there is no asset {name!r}")
    media_type = _MEDIA_TYPES[PurePosixPath(name).suffix]
    return Response(assets[name], media_type=media_type, headers={"cache-control": "max-age=300"})


@cache
def _assets() -> dict[str, bytes]:
    folder = files("treadle.web.dashboard").joinpath("static")
    styles = b"\n".join(folder.joinpath("styles", f"{name}.css").read_bytes() for name in _STYLES)
    scripts = {
        each.name: each.read_bytes() for each in folder.joinpath("scripts").iterdir() if each.name.endswith(".js")
    }
    return {"style.css": styles, "icon.svg": folder.joinpath("icon.svg").read_bytes(), **scripts}
