"""The audit: what operators did, newest first. A change of many jobs is one line; its jobs are listed on request."""

from datetime import UTC, datetime
from uuid import UUID

from starlette.responses import Response

from treadle.app import Treadle
from treadle.db.queries import operations as operation_queries
from treadle.web.dashboard.pages.rendering import page
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.words.changes import ACT_LIMIT, AuditFilter
from treadle.words.errors import InvalidArgument, shown
from treadle.words.masking import masked

PAGE_SIZE = 50
JOBS = 100
# The names of the actions, for the list from which one is chosen.
ACTIONS = (
    "retry",
    "cancel",
    "delete",
    "run_now",
    "priority",
    "pause",
    "resume",
    "limit",
    "reset limit",
    "concurrency",
    "reset concurrency",
    "signal",
    "pause schedule",
    "resume schedule",
    "run schedule",
    "put schedule",
    "delete schedule",
)


def routes(app: Treadle) -> list[RouteSpec]:
    async def audit(context: Context) -> Response:
        before = _before(context)
        act = context.field("act")
        if act is not None:
            return await one_act(context, _uuid(act), before)
        fields = {name: context.field(name) for name in ("actor", "action", "type", "since", "until")}
        since, until = (_time(name, fields[name]) for name in ("since", "until"))
        chosen = AuditFilter(fields["actor"], fields["action"], fields["type"], since, until)
        found = masked(await app.database.aread(operation_queries.find_acts(chosen, before, PAGE_SIZE)))
        return page(
            context,
            "audit.html",
            found=found,
            before=before,
            filter=fields,
            actions=ACTIONS,
            act_limit=ACT_LIMIT,
        )

    async def one_act(context: Context, act: UUID, before: int | None) -> Response:
        query = operation_queries.find_audit(None, before, JOBS + 1, act)
        found = masked(await app.database.aread(query))
        return page(context, "act.html", act=act, entries=found[:JOBS], more=len(found) > JOBS, before=before)

    return [RouteSpec("GET", "/audit", audit, Role.VIEWER, "Audit log")]


def _before(context: Context) -> int | None:
    given = context.field("before") or ""
    return int(given) if given.isascii() and given.isdigit() and len(given) < 19 else None


def _uuid(given: str) -> UUID:
    try:
        return UUID(given)
    except ValueError:
        raise InvalidArgument(f"act must be a UUID, got {shown(given)}") from None


def _time(name: str, given: str | None) -> datetime | None:
    """As browsers send it: 2026-11-18T02:29, in UTC."""
    if given is None:
        return None
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise InvalidArgument(f"{name} must be a time such as 2026-11-18T02:29, got {shown(given)}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
