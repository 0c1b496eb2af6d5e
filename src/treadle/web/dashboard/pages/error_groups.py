"""The list of error groups, the page of one, and the forms that change one."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import uuid4

from starlette.responses import Response

from treadle.app.treadle import Treadle
from treadle.db.queries import error_groups as group_queries
from treadle.db.queries.error_groups import GroupFilter
from treadle.operations.error_groups import STATUSES, achange_chunk, acount_jobs, aget_details
from treadle.text.masking import masked
from treadle.web.dashboard.actions import Chunk, group_id
from treadle.web.dashboard.pages.forms import act_of, answer_chunk, form_routes, redirect_back
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.live.regions import LivePage
from treadle.web.dashboard.pages.rendering import page
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.words.changes import Action
from treadle.words.error_group import ErrorGroups, GroupDetails
from treadle.words.errors import InvalidArgument, shown

GROUPS = 100
# Less often than other pages: workers count the groups every 10 seconds.
LIVE_SECONDS = 4.0
ORDERS = {"failures": "Most frequent", "last_seen": "Latest", "first_seen": "New"}
LIST = LivePage("/errors", "errors.html", {"errors": "parts/errors.html"}, LIVE_SECONDS)
GROUP = LivePage(
    "/errors/{id}",
    "error_group.html",
    {"group-state": "parts/error_group.html", "group-jobs": "parts/error_group_jobs.html"},
    LIVE_SECONDS,
)
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


async def filter_of(context: Context) -> GroupFilter:
    return GroupFilter(context.field("type"), context.field("queue"), False, context.field("order") or "failures")


async def one_of(context: Context) -> int:
    return group_id(context)


def routes(app: Treadle, readings: Readings) -> list[RouteSpec]:
    aread, arun = app.database.aread, app.database.arun

    def list_reader(chosen: GroupFilter) -> Callable[[], Awaitable[Lists]]:
        find_active, find_muted = (
            group_queries.find_groups(chosen._replace(muted=muted), GROUPS) for muted in (False, True)
        )

        async def read() -> Lists:
            active = await aread(find_active)
            if not active.muted:
                return Lists(active, None)
            muted = await aread(find_muted)
            return Lists(active, muted)

        return read

    def group_reader(target: int) -> Callable[[], Awaitable[GroupDetails]]:
        return lambda: aget_details(app.database, target)

    async def confirm(action: Action, context: Context) -> Response:
        target = group_id(context)
        _, group = await aread(group_queries.get_group(target))
        total = await acount_jobs(app.database, target, STATUSES[action])
        values: dict[str, Any] = {
            "action": action.value,
            "group": masked(group),
            "total": total,
            "target": target,
            "act": uuid4(),
        }
        return page(context, "change_error_group.html", **values)

    async def change(action: Action, context: Context) -> Response:
        target, actor, reason = group_id(context), context.visitor.actor, context.field("reason")
        counts, following = await achange_chunk(
            app.database, target, action, actor, reason, context.field("after"), act_of(context)
        )
        return answer_chunk(context, f"/errors/{target}", action, Chunk(*counts, following))

    async def mute(context: Context) -> Response:
        target, given = group_id(context), context.field("until") or ""
        if given not in _MUTES:
            raise InvalidArgument(f"until must be 1d, version or empty, got {shown(given)}")
        await arun(group_queries.mute(target, *_MUTES[given], context.visitor.actor, context.field("reason")))
        return redirect_back(context, f"/errors/{target}", done="mute")

    async def unmute(context: Context) -> Response:
        target = group_id(context)
        done = await arun(group_queries.unmute(target, context.visitor.actor, context.field("reason")))
        return redirect_back(context, f"/errors/{target}", **{"done" if done else "unfit": "unmute"})

    return [
        *LIST.routes(readings, filter_of, list_reader, _list_values),
        *GROUP.routes(readings, one_of, group_reader, _values),
        *form_routes("/errors/{{id}}/{action}", tuple(STATUSES), confirm, change),
        RouteSpec("POST", "/errors/{id}/mute", mute, Role.OPERATOR),
        RouteSpec("POST", "/errors/{id}/unmute", unmute, Role.OPERATOR),
    ]


def _list_values(lists: Lists, chosen: GroupFilter) -> dict[str, Any]:
    return {
        "at": lists.active.at,
        "lists": masked(lists),
        "filter": {"type": chosen.job_type, "queue": chosen.queue},
        "order": chosen.order,
        "orders": ORDERS,
        "bars": bars,
    }


def _values(details: GroupDetails, target: int) -> dict[str, Any]:
    shown_details = masked(details)
    return {"at": details.at, "details": shown_details, "group": shown_details.group, "bars": bars}
