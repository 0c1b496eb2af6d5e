"""The list of limits, the page of one with its keys, and the pages that confirm a change."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from treadle.app.treadle import Treadle
from treadle.db.queries import limits as limit_queries
from treadle.db.query import Query
from treadle.text.masking import masked
from treadle.web.dashboard import actions
from treadle.web.dashboard.actions import LIMIT_SUMMARIES, LimitAction
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.live.regions import Regions, stream_regions
from treadle.web.dashboard.pages.rendering import fragment, page
from treadle.web.dashboard.routes import Context, Endpoint, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.web.dashboard.urls import local_path, with_result
from treadle.words.errors import InvalidArgument, UnknownLimit, shown
from treadle.words.limit_status import PENDING_COUNTED, LimitStatus

# Limits and keys of limits on one page.
LIMITS = 100
# Keys of one limit in the list of all limits.
KEYS_IN_LIST = 5


class LimitSelection(NamedTuple):
    """Which limits a page shows."""

    name: str | None = None
    """Only this one, with its keys."""
    key: str | None = None
    """The beginning of its keys."""
    search: str | None = None
    """A part of their name or job type."""


class LimitGroup(NamedTuple):
    """A limit with the keys of it that are shown."""

    name: str
    limit: LimitStatus | None
    """None: there are more limits than are listed, and of this one only keys are."""
    keys: list[LimitStatus]
    changed: set[str | None]
    """The keys that have an amount of their own; with None, the limit itself was changed."""
    waiting: int
    exact: bool
    more: int
    """How many further keys are in use, reached or changed, as far as they were read."""


def grouped(rows: Sequence[LimitStatus], most_keys: int | None = None) -> list[LimitGroup]:
    """The limits that jobs wait for first. `most_keys`: of each limit, only that many keys, and only those that are
    waited for, reached, paused or changed."""
    by_name: dict[str, list[LimitStatus]] = {}
    for row in rows:
        by_name.setdefault(row.name, []).append(row)
    groups = [_group(name, found, most_keys) for name, found in by_name.items()]
    return sorted(groups, key=lambda each: (-each.waiting, each.name))


def _group(name: str, rows: list[LimitStatus], most_keys: int | None) -> LimitGroup:
    limit = next((each for each in rows if each.per is None or each.key is None), None)
    keys = [each for each in rows if each is not limit]
    changed = {each.key for each in keys if _is_changed(each, limit)}
    if limit is not None and limit.changed_at is not None:
        changed.add(None)
    notable = keys
    if most_keys is not None:
        notable = [each for each in keys if each.waiting or each.reached or each.key in changed][:most_keys]
    waiting, exact = sum(each.waiting for each in rows), all(each.exact for each in rows)
    return LimitGroup(name, limit, notable, changed, waiting, exact, len(keys) - len(notable))


def _is_changed(key: LimitStatus, limit: LimitStatus | None) -> bool:
    """Without an amount of its own, a key has that of the limit, and was changed when that was."""
    return key.changed_at is not None and (limit is None or key.changed_at != limit.changed_at)


def selection_of(context: Context) -> LimitSelection:
    return LimitSelection(context.field("name"), context.field("key"), context.field("search"))


def template_values(rows: list[LimitStatus], selection: LimitSelection) -> dict[str, Any]:
    here = {name: value for name, value in selection._asdict().items() if value}
    path = "/limits" if selection.name is None else "/limit"
    return {
        # Their names and keys are needed unmasked, to change them.
        "groups": grouped(
            [each._replace(changed_by=masked(each.changed_by)) for each in rows],
            KEYS_IN_LIST if selection.name is None else None,
        ),
        "selection": selection,
        "is_full": len(rows) >= LIMITS,
        "back": f"{path}?{urlencode(here)}" if here else path,
        "target": target,
        "most_pending": PENDING_COUNTED,
    }


def target(row: LimitStatus) -> dict[str, Any]:
    """The parameters that name a limit, or a key of it. A field that is empty would be left out."""
    return {"name": row.name, "key": row.key or None, "without_value": 1 if row.key == "" else None}


def routes(app: Treadle, readings: Readings) -> list[RouteSpec]:
    def query_of(selection: LimitSelection) -> Query[list[LimitStatus]]:
        return limit_queries.find(selection.name, LIMITS, key=selection.key, search=selection.search)

    async def list_limits(context: Context) -> Response:
        selection = LimitSelection(search=context.field("search"))
        return page(context, "limits.html", **template_values(await app.database.aread(query_of(selection)), selection))

    async def live(context: Context) -> Response:
        selection = selection_of(context)
        query = query_of(selection)  # refuses an invalid selection before the stream begins

        def render(mount_path: str, role: Role, rows: list[LimitStatus]) -> Regions:
            html = fragment(mount_path, role, "parts/limits.html", **template_values(rows, selection))
            return Regions(rows[0].at if rows else None, {"limits": html})

        updates = readings.follow(("limits", selection), lambda: app.database.aread(query))
        return stream_regions(context, updates, render)

    async def one_limit(context: Context) -> Response:
        name = context.field("name") or ""
        await app.database.aread(limit_queries.get_kind(name))  # its error names the limits that exist
        selection = LimitSelection(name, context.field("key"))
        rows = await app.database.aread(query_of(selection))
        return page(context, "limit.html", limit=_limit(rows, name), **template_values(rows, selection))

    def confirm_endpoint(action: LimitAction) -> Endpoint:
        async def confirm(context: Context) -> Response:
            name, key = context.field("name") or "", _key(context)
            await app.database.aread(limit_queries.get_kind(name))
            rows = await app.database.aread(limit_queries.find_keys(name, key or "", 1))
            limit = _limit(rows, name)
            row = next((each for each in rows if each.key == key), limit)
            back = local_path(context.field("back")) or "/limits"
            return page(
                context,
                "change_limit.html",
                action=action.value,
                limit=limit,
                row=row,
                target=target(row),
                back=back,
            )

        return confirm

    def change_endpoint(action: LimitAction) -> Endpoint:
        async def change(context: Context) -> Response:
            name, key, reason = context.field("name") or "", _key(context), context.field("reason")
            done = True
            if action is LimitAction.SET:
                amount = _number(context, "amount")
                burst = _number(context, "burst") if context.field("burst") else None
                await actions.set_limit(app, context.visitor, name, amount, key, context.field("period"), burst, reason)
            elif action is LimitAction.PAUSE:
                await actions.pause_limit(app, context.visitor, name, key, reason)
            else:
                done = await actions.reset_limit(app, context.visitor, name, key, reason)
            back = local_path(context.field("back")) or "/limits"
            if back.partition("?")[0] == "/limit" and not await app.database.aread(limit_queries.find(name, 1)):
                back = "/limits"  # one that was added at run time is removed
            return RedirectResponse(context.url(with_result(back, **{"done" if done else "unfit": action.value})), 303)

        return change

    return [
        RouteSpec("GET", "/limits", list_limits, Role.VIEWER, "Limits"),
        RouteSpec("GET", "/live/limits", live, Role.VIEWER, "Live updates of the limits"),
        RouteSpec("GET", "/limit", one_limit, Role.VIEWER, "A limit and its keys"),
        *(
            RouteSpec(method, f"/limits/{action.value}", endpoint(action), Role.OPERATOR, summary)
            for action, summary in LIMIT_SUMMARIES.items()
            for method, endpoint in (("GET", confirm_endpoint), ("POST", change_endpoint))
        ),
    ]


def _limit(rows: list[LimitStatus], name: str) -> LimitStatus:
    """The row that is not for a key."""
    for row in rows:
        if row.per is None or row.key is None:
            return row
    raise UnknownLimit(name, [])


def _key(context: Context) -> str | None:
    """None: the change is for the whole limit."""
    return "" if context.field("without_value") else context.field("key")


def _number(context: Context, name: str) -> int:
    given = context.field(name)
    if re.fullmatch(r"[0-9]{1,9}", given or "", re.ASCII) is None:
        raise InvalidArgument(f"{name} must be a number, got {shown(given)}")
    return int(given or "")
