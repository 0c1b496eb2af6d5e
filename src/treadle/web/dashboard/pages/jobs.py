"""The list of jobs, and the page that confirms a bulk change."""

from uuid import UUID, uuid4

from starlette.exceptions import HTTPException
from starlette.responses import Response

from treadle.app import Treadle
from treadle.db.queries.listing import find_jobs
from treadle.db.queries.snapshots import find_snapshots
from treadle.operations.bulk import acount, lists
from treadle.web.dashboard.pages.rendering import page
from treadle.web.dashboard.redaction import may_see_payloads
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.words.changes import Action
from treadle.words.listing import HELD, JobFilter, JobSummary
from treadle.words.overview import Total
from treadle.words.snapshot import JobSnapshot
from treadle.words.status import Status

PAGE_SIZE = 50
# How many of the affected jobs the confirmation page lists.
PREVIEW_SIZE = 10
# Of those that were selected one by one.
NAMED = 20
STATUSES = [Status.PENDING.value, HELD, *(each.value for each in Status if each is not Status.PENDING)]
BULK_ACTIONS = {
    Action.RETRY: "Retry",
    Action.CANCEL: "Cancel",
    Action.PRIORITY: "Change priority",
    Action.DELETE: "Delete",
}


def filter_of(context: Context) -> JobFilter:
    """The filter in the query parameters."""
    return JobFilter(
        context.field("status"),
        context.field("type"),
        context.field("queue"),
        context.field("worker"),
        context.field("key"),
        # Matches would reveal what payloads contain, and only operators may see that.
        context.field("search") if may_see_payloads(context.visitor.role) else None,
    )


def filter_parameters(context: Context) -> dict[str, str | None]:
    """The same filter as query parameters, for links and forms."""
    names = ("status", "type", "queue", "worker", "key", "search")
    return dict(zip(names, filter_of(context), strict=True))


def routes(app: Treadle) -> list[RouteSpec]:
    async def list_jobs(context: Context) -> Response:
        found = await app.database.aread(find_jobs(filter_of(context), context.field("after"), PAGE_SIZE))
        return page(
            context,
            "jobs.html",
            found=found,
            filter=filter_parameters(context),
            statuses=STATUSES,
            after=context.field("after"),
            bulk_actions=[(action.value, name) for action, name in BULK_ACTIONS.items()],
        )

    async def confirm_bulk(context: Context) -> Response:
        action = context.field("action") or ""
        if action not in {each.value for each in BULK_ACTIONS}:
            raise HTTPException(400, f"action must be one of {', '.join(BULK_ACTIONS)}, got {action[:50]!r}")
        ids = _ids(context)
        named: list[JobSnapshot] = []
        if ids is None:
            total = await acount(app.database, filter_of(context), Action(action))
            preview, filters = await find_preview(Action(action), filter_of(context)), filter_parameters(context)
        else:
            total, preview, filters = Total(len(ids), exact=True), [], {}
            named = await app.database.aread(find_snapshots([UUID(each) for each in ids[:NAMED]])) if ids else []
        return page(
            context,
            "bulk.html",
            action=action,
            name=BULK_ACTIONS[Action(action)],
            ids=ids,
            preview=preview,
            exact=total.exact,
            number=total.jobs,
            filter=filters,
            named=named,
            # A form can be submitted once.
            act=uuid4(),
        )

    async def find_preview(action: Action, job_filter: JobFilter) -> list[JobSummary]:
        """The first of the affected jobs, in the order in which they will be changed."""
        preview: list[JobSummary] = []
        for status in lists(action, job_filter):
            if len(preview) < PREVIEW_SIZE:
                query = find_jobs(job_filter._replace(status=status), None, PREVIEW_SIZE - len(preview))
                preview += (await app.database.aread(query)).jobs
        return preview

    return [
        RouteSpec("GET", "/jobs", list_jobs, Role.VIEWER, "Jobs"),
        RouteSpec("GET", "/bulk", confirm_bulk, Role.OPERATOR, "Confirm a bulk change"),
    ]


def _ids(context: Context) -> list[str] | None:
    """The selected jobs; None for all jobs that match the filter."""
    if context.field("all"):
        return None
    given = context.request.query_params.getlist("ids")[:500]
    try:
        return [str(UUID(each)) for each in given]
    except ValueError:
        raise HTTPException(400, "ids must be job ids") from None
