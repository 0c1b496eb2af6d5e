"""The list of limits, the page of one with its keys, and the pages that confirm a change."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from treadle.app.treadle import Treadle
from treadle.db.queries import limits as limit_queries
from treadle.text.masking import masked
from treadle.web.dashboard.actions import limit_options
from treadle.web.dashboard.pages.forms import form_routes
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.live.regions import LivePage
from treadle.web.dashboard.pages.rendering import page
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.web.dashboard.urls import local_path, with_result
from treadle.words.errors import InvalidArgument, UnknownLimit, shown
from treadle.words.limit_status import PENDING_COUNTED, LimitStatus

# Limits and keys of limits on one page.
LIMITS = 100
# Keys of one limit in the list of all limits.
KEYS_IN_LIST = 5
LIST = LivePage("/limits", "limits.html", {"limits": "parts/limits.html"})


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


async def selection_of(context: Context) -> LimitSelection:
    return LimitSelection(context.field("name"), context.field("key"), context.field("search"))


def template_values(rows: list[LimitStatus], selection: LimitSelection) -> dict[str, Any]:
    here = {name: value for name, value in selection._asdict().items() if value}
    path = "/limits" if selection.name is None else "/limit"
    return {
        "at": rows[0].at if rows else None,
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
    def reader(selection: LimitSelection) -> Callable[[], Awaitable[list[LimitStatus]]]:
        query = limit_queries.find(selection.name, LIMITS, key=selection.key, search=selection.search)
        return lambda: app.database.aread(query)

    async def one_limit(context: Context) -> Response:
        name = context.field("name") or ""
        await app.database.aread(limit_queries.get_kind(name))  # its error names the limits that exist
        selection = LimitSelection(name, context.field("key"))
        rows = await reader(selection)()
        return page(context, "limit.html", limit=_limit(rows, name), **template_values(rows, selection))

    async def confirm(action: str, context: Context) -> Response:
        name, key = context.field("name") or "", _key(context)
        await app.database.aread(limit_queries.get_kind(name))
        rows = await app.database.aread(limit_queries.find_keys(name, key or "", 1))
        limit = _limit(rows, name)
        row = next((each for each in rows if each.key == key), limit)
        back = local_path(context.field("back")) or "/limits"
        return page(context, "change_limit.html", action=action, limit=limit, row=row, target=target(row), back=back)

    async def change(action: str, context: Context) -> Response:
        name, key, reason = context.field("name") or "", _key(context), context.field("reason")
        done = True
        if action == "set":
            burst = _number(context, "burst") if context.field("burst") else None
            options = limit_options(context.visitor, key, context.field("period"), burst, reason)
            await app.limits.aset(name, _number(context, "amount"), **options)
        elif action == "pause":
            await app.limits.apause(name, key, actor=context.visitor.actor, reason=reason)
        else:
            done = await app.limits.areset(name, key, actor=context.visitor.actor, reason=reason)
        back = local_path(context.field("back")) or "/limits"
        if back.partition("?")[0] == "/limit" and not await app.database.aread(limit_queries.find(name, 1)):
            back = "/limits"  # one that was added at run time is removed
        return RedirectResponse(context.url(with_result(back, **{"done" if done else "unfit": action})), 303)

    return [
        *LIST.routes(readings, selection_of, reader, template_values),
        RouteSpec("GET", "/limit", one_limit, Role.VIEWER),
        *form_routes("/limits/{action}", ("set", "pause", "reset"), confirm, change),
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
