"""The audit: what operators did, newest first. A change of many jobs is one line; its jobs are listed on request."""

from typing import Any
from uuid import UUID

from starlette.responses import Response

from treadle.app.treadle import Treadle
from treadle.db.queries import operations as operation_queries
from treadle.text.masking import masked
from treadle.web.dashboard.filters import read_audit_filter
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.live.regions import Regions, rendered, stream_regions
from treadle.web.dashboard.pages.rendering import page
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.words.changes import ACT_LIMIT, AUDIT_ACTIONS, ActList
from treadle.words.errors import InvalidArgument, shown

PAGE_SIZE = 50
JOBS = 100
# What was read is shown for at most this long, also if no later change was made: changes are not committed in order.
KEPT_SECONDS = 10.0


def routes(app: Treadle, readings: Readings) -> list[RouteSpec]:
    async def audit(context: Context) -> Response:
        before = _before(context)
        act = context.field("act")
        if act is not None:
            return await one_act(context, _uuid(act), before)
        fields = _fields(context)
        query = operation_queries.find_acts(read_audit_filter(*fields.values()), before, PAGE_SIZE)
        values = _values(fields, await app.database.aread(query), before)
        return page(context, "audit.html", actions=AUDIT_ACTIONS, **values)

    async def live(context: Context) -> Response:
        fields = _fields(context)
        read_audit_filter(*fields.values())  # refuses an invalid filter before the stream begins

        async def read() -> ActList:
            """The list is read again only if there was a change: with a filter, thousands of acts are examined."""
            newest = await app.database.aread(operation_queries.find_audit(limit=1))
            key = ("acts", *fields.values(), newest[0].id if newest else None)
            # Read again each time: 2h ago is another time then.
            query = operation_queries.find_acts(read_audit_filter(*fields.values()), None, PAGE_SIZE)
            return await readings.recent(key, lambda: app.database.aread(query), KEPT_SECONDS)

        def render(mount_path: str, role: Role, found: ActList) -> Regions:
            return rendered(mount_path, role, {"audit": "parts/audit.html"}, _values(fields, found))

        return stream_regions(context, readings.follow(("audit", *fields.values()), read), render)

    async def one_act(context: Context, act: UUID, before: int | None) -> Response:
        query = operation_queries.find_audit(None, before, JOBS + 1, act)
        found = masked(await app.database.aread(query))
        return page(context, "act.html", act=act, entries=found[:JOBS], more=len(found) > JOBS, before=before)

    return [
        RouteSpec("GET", "/audit", audit, Role.VIEWER),
        RouteSpec("GET", "/live/audit", live, Role.VIEWER),
    ]


def _fields(context: Context) -> dict[str, str | None]:
    return {name: context.field(name) for name in ("actor", "action", "type", "since", "until")}


def _values(fields: dict[str, str | None], found: ActList, before: int | None = None) -> dict[str, Any]:
    return {"at": None, "found": masked(found), "before": before, "filter": fields, "act_limit": ACT_LIMIT}


def _before(context: Context) -> int | None:
    given = context.field("before") or ""
    return int(given) if given.isascii() and given.isdigit() and len(given) < 19 else None


def _uuid(given: str) -> UUID:
    try:
        return UUID(given)
    except ValueError:
        raise InvalidArgument(f"act must be a UUID, got {shown(given)}") from None
