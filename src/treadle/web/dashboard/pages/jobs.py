"""The list of jobs, and the page that confirms a bulk change."""

import re
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID, uuid4

from starlette.exceptions import HTTPException
from starlette.responses import Response

from treadle.app.treadle import Treadle
from treadle.db.queries.listing import estimate_jobs, find_jobs, has_payload_index, is_whole_list
from treadle.db.queries.overview import Names, find_names
from treadle.db.queries.snapshots import find_snapshots
from treadle.operations.bulk import acount_to_confirm, lists
from treadle.text.masking import masked
from treadle.text.payload_condition import index_statement
from treadle.web.dashboard.filters import filter_of, filter_parameters, fixed_parameters, read_filter
from treadle.web.dashboard.pages.copying import list_commands
from treadle.web.dashboard.pages.live.job_list import LiveLists
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.rendering import page
from treadle.web.dashboard.redaction import may_see_payloads
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.searches import Searches, search_query
from treadle.web.dashboard.security.access import Role
from treadle.web.stream import EventStream
from treadle.words.changes import Action
from treadle.words.errors import TooSlow
from treadle.words.listing import BLOCKED, LATER, JobFilter, JobSummary, Listing
from treadle.words.overview import Total
from treadle.words.snapshot import JobSnapshot
from treadle.words.status import FINISHED, Status

PAGE_SIZE = 50
# The script continues a search until the page shows this many jobs.
MOST_FOUND = 200
PERIODS = (("15m", "15 min"), ("1h", "1 h"), ("24h", "24 h"), ("7d", "7 d"))
# How many of the affected jobs the confirmation page lists.
PREVIEW_SIZE = 10
# Of those that were selected one by one.
NAMED = 20
STATUSES = [Status.PENDING.value, LATER, BLOCKED, *(each.value for each in Status if each is not Status.PENDING)]
BULK_ACTIONS = {
    Action.RETRY: "Retry",
    Action.CANCEL: "Cancel",
    Action.PRIORITY: "Change priority",
    Action.DELETE: "Delete",
}


class Progress(NamedTuple):
    """How far a search has come, including the pages before this one."""

    searched: int
    total: int | None
    """About how many jobs there are to search, if that is known."""
    next_page: dict[str, str | int | None]
    """The parameters of the link that continues."""


def routes(app: Treadle, searches: Searches, readings: Readings) -> list[RouteSpec]:
    live_lists = LiveLists(app, readings)

    async def live(context: Context) -> Response:
        shown, role = _shown(context), context.visitor.role
        job_filter = filter_of(context)
        search_query(role, job_filter, None, PAGE_SIZE)  # refuses an invalid filter before the stream begins
        parameters = tuple(filter_parameters(context).values())

        async def find() -> Listing:
            # Read again each time: 2h ago is another time then.
            return await searches.find(app.database, role, read_filter(*parameters), None, PAGE_SIZE)

        key = (*parameters, may_see_payloads(role))
        # A search takes too long to be repeated, and the script has added its later pages.
        return EventStream(
            live_lists.frames(key, None if job_filter.is_search else find, shown, (context.url(""), role))
        )

    async def list_jobs(context: Context) -> Response:
        job_filter, after = filter_of(context), context.field("after")
        found = await searches.find(app.database, context.visitor.role, job_filter, after, PAGE_SIZE)
        names = Names([], [], [])
        with suppress(TooSlow):
            names = await app.database.aread(find_names())
        return page(
            context,
            "jobs.html",
            found=masked(found),
            filter=filter_parameters(context),
            is_search=job_filter.is_search,
            by_finish=job_filter.status in FINISHED,
            progress=await progress_of(context, job_filter, found),
            index=await missing_index(job_filter),
            names=names,
            periods=PERIODS,
            most=MOST_FOUND,
            commands=list_commands(
                app.database.schema, job_filter, filter_parameters(context), context.visitor.role, context.url("")
            ),
            shown=".".join(job.id.hex for job in found.jobs),
            statuses=STATUSES,
            after=context.field("after"),
            bulk_actions=[(action.value, name) for action, name in BULK_ACTIONS.items()],
        )

    async def progress_of(context: Context, job_filter: JobFilter, found: Listing) -> Progress:
        searched = number_of(context, "searched") or 0
        total = number_of(context, "of")
        if found.next and not searched and job_filter.is_search and is_whole_list(job_filter):
            total = await app.database.aread(estimate_jobs(job_filter.status))
        searched += found.searched
        following = {"searched": searched, "of": total} if job_filter.is_search else {}
        return Progress(searched, total, {"after": found.next, **following})

    async def missing_index(job_filter: JobFilter) -> str | None:
        """The statement for an index that would make this search quick."""
        where = [] if job_filter.where is None else [each for each in job_filter.where.all if each.value is not None]
        for each in where:
            if await app.database.aread(has_payload_index(each.path)):
                return None
        return index_statement(where[0], app.database.schema) if where else None

    async def confirm_bulk(context: Context) -> Response:
        action = context.field("action") or ""
        if action not in {each.value for each in BULK_ACTIONS}:
            raise HTTPException(400, f"action must be one of {', '.join(BULK_ACTIONS)}, got {action[:50]!r}")
        ids = _ids(context)
        named: list[JobSnapshot] = []
        if ids is None:
            job_filter = filter_of(context)
            total, confirmed = await acount_to_confirm(app.database, job_filter, Action(action))
            preview, filters = await find_preview(Action(action), job_filter), fixed_parameters(job_filter)
        else:
            total, preview, filters, confirmed = Total(len(ids), exact=True), [], {}, None
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
            confirmed=confirmed,
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
        RouteSpec("GET", "/jobs", list_jobs, Role.VIEWER),
        RouteSpec("GET", "/live/jobs", live, Role.VIEWER),
        RouteSpec("GET", "/bulk", confirm_bulk, Role.OPERATOR),
    ]


def number_of(context: Context, name: str) -> int | None:
    given = context.field(name) or ""
    return int(given) if re.fullmatch("[0-9]{1,12}", given, re.ASCII) else None


def _shown(context: Context) -> frozenset[UUID]:
    """The jobs on the page."""
    given = [each for each in (context.field("shown") or "").split(".") if each][:PAGE_SIZE]
    try:
        return frozenset(map(UUID, given))
    except ValueError:
        raise HTTPException(400, "shown must be job ids, separated by full stops") from None


def _ids(context: Context) -> list[str] | None:
    """The selected jobs; None for all jobs that match the filter."""
    if context.field("all"):
        return None
    given = context.request.query_params.getlist("ids")[:500]
    try:
        return [str(UUID(each)) for each in given]
    except ValueError:
        raise HTTPException(400, "ids must be job ids") from None
