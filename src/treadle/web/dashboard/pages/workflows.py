"""The list of workflows. The page of one, with its graph, is the page of its job."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from uuid import UUID

from treadle.app.treadle import Treadle
from treadle.db.queries.dashboard import find_workflows
from treadle.db.queries.listing import may_read_payloads
from treadle.text.masking import masked
from treadle.web.dashboard.pages.live.readings import Readings
from treadle.web.dashboard.pages.live.regions import LivePage
from treadle.web.dashboard.redaction import may_see_payloads
from treadle.web.dashboard.routes import Context, RouteSpec
from treadle.words.errors import InvalidArgument, shown
from treadle.words.workflow_list import WORKFLOW_STATES, WorkflowList

PAGE_SIZE = 50
LIST = LivePage("/workflows", "workflows.html", {"workflows": "parts/workflows.html"})


class WorkflowSelection(NamedTuple):
    state: str | None
    name: str | None
    after: UUID | None
    names: bool
    """Names are in payloads, which only operators see, and not every role of the database."""


def template_values(found: WorkflowList, selection: WorkflowSelection) -> dict[str, Any]:
    return {
        "at": found.at,
        "found": masked(found),
        "states": WORKFLOW_STATES,
        "filter": {"state": selection.state, "name": selection.name},
        "after": selection.after,
        "names": selection.names,
    }


def routes(app: Treadle, readings: Readings) -> list[RouteSpec]:
    async def select(context: Context) -> WorkflowSelection:
        names = may_see_payloads(context.visitor.role) and await app.database.aread(may_read_payloads())
        name = context.field("name") if names else None
        return WorkflowSelection(context.field("state"), name, _id(context.field("after")), names)

    def reader(selection: WorkflowSelection) -> Callable[[], Awaitable[WorkflowList]]:
        state, name, after, names = selection
        query = find_workflows(state, name, after, PAGE_SIZE, names=names)
        return lambda: app.database.aread(query)

    return LIST.routes(readings, select, reader, template_values)


def _id(given: str | None) -> UUID | None:
    try:
        return None if given is None else UUID(given)
    except ValueError:
        raise InvalidArgument(f"after must be the id of a workflow, got {shown(given)}") from None
