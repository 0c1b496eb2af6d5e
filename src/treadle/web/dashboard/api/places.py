"""The endpoints of the API about job types, queues and workflows."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException

from treadle.app.treadle import Treadle
from treadle.db.queries.dashboard import find_workflows
from treadle.db.queries.listing import may_read_payloads
from treadle.operations.known_names import acheck_name
from treadle.operations.places import Kind, aget_activities, aget_place, aget_places
from treadle.web.dashboard.api import place_models as models
from treadle.web.dashboard.redaction import may_see_payloads
from treadle.web.dashboard.routes import Context, RouteSpec

Get = Callable[..., RouteSpec]


def routes(app: Treadle, get: Get) -> list[RouteSpec]:
    """`get` makes the route of an operation."""

    def listed(kind: Kind) -> Callable[[Context, Any], Awaitable[Any]]:
        async def read(context: Context, given: models.WindowQuery) -> Any:
            found = await aget_places(app.database, kind, int(given.window))
            return {"at": found.at, "window": found.window, f"{kind}s": found.places}

        return read

    def one(kind: Kind) -> Callable[[Context, Any], Awaitable[Any]]:
        async def read(context: Context, given: models.PlaceQuery) -> Any:
            details = await aget_place(app.database, kind, given.name, int(given.window))
            activities = await aget_activities(app.database, kind, given.name)
            await acheck_name(app.database, kind, given.name, details, activities)
            rest = {name: value for name, value in details._asdict().items() if name != "place"}
            return {"summary": details.place, "activities": activities, **rest}

        return read

    async def workflows(context: Context, given: models.WorkflowsQuery) -> Any:
        names = may_see_payloads(context.visitor.role)
        if given.name is not None and not names:
            raise HTTPException(403, "name requires the role operator, because names of workflows are in payloads")
        names = names and await app.database.aread(may_read_payloads())
        query = find_workflows(given.state, given.name, given.after, given.limit, names=names)
        return await app.database.aread(query)

    return [
        get("/api/types", listed("type"), models.TypeList, "Job types", models.WindowQuery),
        get("/api/type", one("type"), models.PlaceDetails, "One job type", models.PlaceQuery),
        get("/api/queues", listed("queue"), models.QueueList, "Queues", models.WindowQuery),
        get("/api/queue", one("queue"), models.PlaceDetails, "One queue", models.PlaceQuery),
        get("/api/workflows", workflows, models.WorkflowList, "List workflows", models.WorkflowsQuery),
    ]
