"""The list of jobs, and the question before many are changed."""

from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.responses import Response

from treadle.app import Treadle
from treadle.db.queries.listing import find_jobs
from treadle.operations.bulk import acount, lists
from treadle.web.dashboard.access import Role
from treadle.web.dashboard.redaction import may_look_inside
from treadle.web.dashboard.render import page
from treadle.web.dashboard.routes import Asked, Rule
from treadle.words.changes import Action
from treadle.words.listing import HELD, Listed, Wanted
from treadle.words.overview import Total
from treadle.words.status import Status

PAGE = 50
# Shown in the preview of a change.
FIRST = 10
STATUSES = [Status.PENDING.value, HELD, *(each.value for each in Status if each is not Status.PENDING)]
BULK = {Action.RETRY: "Try again", Action.CANCEL: "Cancel", Action.PRIORITY: "Change priority", Action.DELETE: "Delete"}


def wanted(asked: Asked) -> Wanted:
    """What the address asks for."""
    return Wanted(
        asked.field("status"),
        asked.field("type"),
        asked.field("queue"),
        asked.field("worker"),
        asked.field("key"),
        # It would tell what is in the payloads, which only operators see.
        asked.field("search") if may_look_inside(asked.visitor.role) else None,
    )


def address(asked: Asked) -> dict[str, str | None]:
    """The same, for addresses and forms."""
    names = ("status", "type", "queue", "worker", "key", "search")
    return dict(zip(names, wanted(asked), strict=True))


def rules(app: Treadle) -> list[Rule]:
    async def listed(asked: Asked) -> Response:
        found = await app.database.aread(find_jobs(wanted(asked), asked.field("after"), PAGE))
        return page(
            asked,
            "jobs.html",
            found=found,
            filter=address(asked),
            statuses=STATUSES,
            after=asked.field("after"),
            bulk=[(action.value, name) for action, name in BULK.items()],
        )

    async def preview(asked: Asked) -> Response:
        action = asked.field("action") or ""
        if action not in {each.value for each in BULK}:
            raise HTTPException(400, f"action must be one of {', '.join(BULK)}, got {action[:50]!r}")
        ids = _ids(asked)
        if ids is None:
            total = await acount(app.database, wanted(asked), Action(action))
            some, filters = await first(Action(action), wanted(asked)), address(asked)
        else:
            total, some, filters = Total(len(ids), exact=True), [], {}
        return page(
            asked,
            "bulk.html",
            action=action,
            name=BULK[Action(action)],
            ids=ids,
            some=some,
            exact=total.exact,
            number=total.jobs,
            filter=filters,
        )

    async def first(action: Action, meant: Wanted) -> list[Listed]:
        """Some of those that are meant, in the order in which they will be changed."""
        some: list[Listed] = []
        for status in lists(action, meant):
            if len(some) < FIRST:
                query = find_jobs(meant._replace(status=status), None, FIRST - len(some))
                some += (await app.database.aread(query)).jobs
        return some

    return [
        Rule("GET", "/jobs", listed, Role.VIEWER, "Jobs"),
        Rule("GET", "/bulk", preview, Role.OPERATOR, "The question before many jobs are changed"),
    ]


def _ids(asked: Asked) -> list[str] | None:
    """Those that were chosen; None for all that match."""
    if asked.field("all"):
        return None
    given = asked.request.query_params.getlist("ids")[:500]
    try:
        return [str(UUID(each)) for each in given]
    except ValueError:
        raise HTTPException(400, "ids must be the ids of jobs") from None
