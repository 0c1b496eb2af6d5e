"""The list of workflows. The page of one, with its graph, is the page of its job."""

from typing import Any, NamedTuple
from uuid import UUID

from starlette.responses import Response

from treadle.app.treadle import Treadle
from treadle.db.queries.dashboard import find_workflows
from treadle.db.queries.listing import may_read_payloads
from treadle.db.query import Query
from treadle.text.masking import masked
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.live.regions import Regions, stream_regions
from treadle.web.dashboard.pages.rendering import fragment, page
from treadle.web.dashboard.redaction import may_see_payloads
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.web.dashboard.security.access import Role
from treadle.words.errors import InvalidArgument, shown
from treadle.words.workflow_list import WORKFLOW_STATES, WorkflowList

PAGE_SIZE = 50


class WorkflowSelection(NamedTuple):
    state: str | None
    name: str | None
    after: UUID | None
    names: bool
    """Names are in payloads, which only operators see, and not every role of the database."""


async def selection_of(app: Treadle, context: Context) -> WorkflowSelection:
    names = may_see_payloads(context.visitor.role) and await app.database.aread(may_read_payloads())
    name = context.field("name") if names else None
    return WorkflowSelection(context.field("state"), name, _id(context.field("after")), names)


def template_values(found: WorkflowList, selection: WorkflowSelection) -> dict[str, Any]:
    return {
        "found": masked(found),
        "filter": {"state": selection.state, "name": selection.name},
        "after": selection.after,
        "names": selection.names,
    }


def routes(app: Treadle, readings: Readings) -> list[RouteSpec]:
    def query_of(selection: WorkflowSelection) -> Query[WorkflowList]:
        state, name, after, names = selection
        return find_workflows(state, name, after, PAGE_SIZE, names=names)

    async def list_workflows(context: Context) -> Response:
        selection = await selection_of(app, context)
        values = template_values(await app.database.aread(query_of(selection)), selection)
        return page(context, "workflows.html", states=WORKFLOW_STATES, **values)

    async def live(context: Context) -> Response:
        selection = await selection_of(app, context)
        query = query_of(selection)  # refuses an invalid selection before the stream begins

        def render(mount_path: str, role: Role, found: WorkflowList) -> Regions:
            html = fragment(mount_path, role, "parts/workflows.html", **template_values(found, selection))
            return Regions(found.at, {"workflows": html})

        updates = readings.follow(("workflows", selection), lambda: app.database.aread(query))
        return stream_regions(context, updates, render)

    return [
        RouteSpec("GET", "/workflows", list_workflows, Role.VIEWER, "Workflows"),
        RouteSpec("GET", "/live/workflows", live, Role.VIEWER, "Live updates of workflows"),
    ]


def _id(given: str | None) -> UUID | None:
    try:
        return None if given is None else UUID(given)
    except ValueError:
        raise InvalidArgument(f"after must be the id of a workflow, got {shown(given)}") from None
