"""Style sheet, script and icon: from the package, for everybody."""

from functools import cache
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.responses import Response

from treadle.web.dashboard.access import Role
from treadle.web.dashboard.routes import Asked, Rule

_KINDS = {"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}


def rules() -> list[Rule]:
    return [Rule("GET", "/assets/{name}", asset, Role.NOBODY, "Style sheet, script, icon")]


async def asset(asked: Asked) -> Response:
    name = asked.request.path_params["name"]
    if name not in _KINDS:
        raise HTTPException(404, f"there is no {name!r}")
    return Response(_content(name), media_type=_KINDS[name], headers={"cache-control": "max-age=300"})


@cache
def _content(name: str) -> bytes:
    return files("treadle.web.dashboard").joinpath("static", name).read_bytes()
