"""The list of error groups, the page of one, and the forms that change one."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import uuid4

from starlette.responses import JSONResponse, RedirectResponse, Response

from treadle.app.treadle import Treadle
from treadle.db.queries import error_groups as group_queries
from treadle.db.queries.error_groups import GroupFilter
from treadle.operations.error_groups import STATUSES, acount_jobs, aget_details
from treadle.text.masking import masked
from treadle.web.dashboard import error_actions
from treadle.web.dashboard.api.error_operations import group_id
from treadle.web.dashboard.pages.forms import act_of
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.live.regions import Regions, stream_regions
from treadle.web.dashboard.pages.rendering import fragment, page
from treadle.web.dashboard.routes import Context, Endpoint, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.web.dashboard.urls import with_result
from treadle.words.changes import Action
from treadle.words.error_group import ErrorGroups, GroupDetails
from treadle.words.errors import InvalidArgument, shown

GROUPS = 100
# Less often than other pages: workers count the groups every 10 seconds.
LIVE_SECONDS = 4.0
ORDERS = {"failures": "Most frequent", "last_seen": "Latest", "first_seen": "New"}
# Of the drawing of a trend, in its own units.
WIDTH, HEIGHT = 4, 24
_MUTES = {
    "": (None, False),
    "1d": (timedelta(days=1), False),
    "version": (None, True),
}


class Bar(NamedTuple):
    x: float
    y: float
    height: float


class Lists(NamedTuple):
    active: ErrorGroups
    muted: ErrorGroups | None


def bars(trend: Sequence[int]) -> list[Bar]:
    """The bars of a trend. An hour with a single failure is visible beside one with a thousand."""
    most = max(trend, default=0)
    heights = [max(1.5, HEIGHT * each / most) if each else 0.0 for each in trend]
    return [
        Bar(nth * WIDTH, round(HEIGHT - height, 2), round(height, 2)) for nth, height in enumerate(heights) if height
    ]


def filter_of(context: Context) -> GroupFilter:
    given = context.field("order") or "failures"
    return GroupFilter(context.field("type"), context.field("queue"), False, given)


def routes(app: Treadle, readings: Readings) -> list[RouteSpec]:
    def reader(chosen: GroupFilter) -> Callable[[], Awaitable[Lists]]:
        """Raises InvalidArgument at once if the filter is invalid."""
        find_active, find_muted = (
            group_queries.find_groups(chosen._replace(muted=muted), GROUPS) for muted in (False, True)
        )

        async def read() -> Lists:
            active = await app.database.aread(find_active)
            if not active.muted:
                return Lists(active, None)
            muted = await app.database.aread(find_muted)
            return Lists(active, muted)

        return read

    async def list_groups(context: Context) -> Response:
        chosen = filter_of(context)
        return page(context, "errors.html", **_list_values(chosen, await reader(chosen)()))

    async def live_list(context: Context) -> Response:
        chosen = filter_of(context)

        def render(mount_path: str, role: Role, lists: Lists) -> Regions:
            html = fragment(mount_path, role, "parts/errors.html", **_list_values(chosen, lists))
            return Regions(lists.active.at, {"errors": html})

        return stream_regions(context, readings.follow(("errors", chosen), reader(chosen), LIVE_SECONDS), render)

    async def one_group(context: Context) -> Response:
        details = await aget_details(app.database, group_id(context))
        return page(context, "error_group.html", **_values(details))

    async def live_group(context: Context) -> Response:
        target = group_id(context)

        def render(mount_path: str, role: Role, details: GroupDetails) -> Regions:
            values = _values(details)
            parts = {"group-state": "parts/error_group.html", "group-jobs": "parts/error_group_jobs.html"}
            html = {name: fragment(mount_path, role, template, **values) for name, template in parts.items()}
            return Regions(details.at, html)

        async def read_one() -> GroupDetails:
            return await aget_details(app.database, target)

        return stream_regions(context, readings.follow(("error group", target), read_one, LIVE_SECONDS), render)

    def confirm_endpoint(action: Action) -> Endpoint:
        async def confirm(context: Context) -> Response:
            target = group_id(context)
            _, group = await app.database.aread(group_queries.get_group(target))
            total = await acount_jobs(app.database, target, STATUSES[action])
            return page(
                context,
                "change_error_group.html",
                action=action.value,
                group=masked(group),
                total=total,
                target=target,
                act=uuid4(),
            )

        return confirm

    def change_endpoint(action: Action) -> Endpoint:
        async def change(context: Context) -> Response:
            target = group_id(context)
            chunk = await error_actions.change_jobs(
                app, context.visitor, target, action, context.field("reason"), context.field("after"), act_of(context)
            )
            if "application/json" in context.request.headers.get("accept", ""):
                return JSONResponse(chunk._asdict())
            counts = {name: str(value) for name, value in chunk._asdict().items() if value}
            return _to_group(context, target, bulk=action.value, **(counts or {"done": "0"}))

        return change

    async def mute(context: Context) -> Response:
        target, given = group_id(context), context.field("until") or ""
        if given not in _MUTES:
            raise InvalidArgument(f"until must be 1d, version or empty, got {shown(given)}")
        await error_actions.mute(app, context.visitor, target, *_MUTES[given], context.field("reason"))
        return _to_group(context, target, done="mute")

    async def unmute(context: Context) -> Response:
        target = group_id(context)
        done = await error_actions.unmute(app, context.visitor, target, context.field("reason"))
        return _to_group(context, target, **{"done" if done else "unfit": "unmute"})

    return [
        RouteSpec("GET", "/errors", list_groups, Role.VIEWER, "Error groups"),
        RouteSpec("GET", "/live/errors", live_list, Role.VIEWER, "Live updates of the error groups"),
        RouteSpec("GET", "/errors/{id}", one_group, Role.VIEWER, "An error group"),
        RouteSpec("GET", "/live/errors/{id}", live_group, Role.VIEWER, "Live updates of an error group"),
        *(
            RouteSpec(method, f"/errors/{{id}}/{action.value}", endpoint(action), Role.OPERATOR, summary)
            for action, summary in error_actions.SUMMARIES.items()
            for method, endpoint in (("GET", confirm_endpoint), ("POST", change_endpoint))
        ),
        RouteSpec("POST", "/errors/{id}/mute", mute, Role.OPERATOR, error_actions.MUTE_SUMMARY),
        RouteSpec("POST", "/errors/{id}/unmute", unmute, Role.OPERATOR, error_actions.UNMUTE_SUMMARY),
    ]


def _list_values(chosen: GroupFilter, lists: Lists) -> dict[str, Any]:
    query = {"type": chosen.job_type, "queue": chosen.queue}
    return {
        "lists": masked(lists),
        "filter": query,
        "order": chosen.order,
        "orders": ORDERS,
        "bars": bars,
    }


def _values(details: GroupDetails) -> dict[str, Any]:
    shown_details = masked(details)
    return {"details": shown_details, "group": shown_details.group, "bars": bars}


def _to_group(context: Context, target: int, **result: str) -> Response:
    return RedirectResponse(context.url(with_result(f"/errors/{target}", **result)), 303)
