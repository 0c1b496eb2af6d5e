"""The style sheet, script and icon: served from the package, without a role."""

from functools import cache
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.responses import Response

from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role

_MEDIA_TYPES = {"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}


def routes() -> list[RouteSpec]:
    return [RouteSpec("GET", "/assets/{name}", asset, Role.NOBODY, "Style sheet, script, icon")]


async def asset(context: Context) -> Response:
    name = context.request.path_params["name"]
    if name not in _MEDIA_TYPES:
        raise HTTPException(404, f"there is no asset {name!r}")
    return Response(_content(name), media_type=_MEDIA_TYPES[name], headers={"cache-control": "max-age=300"})


@cache
def _content(name: str) -> bytes:
    return files("treadle.web.dashboard").joinpath("static", name).read_bytes()
