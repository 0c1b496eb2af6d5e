"""The endpoints of the JSON API. They offer what the pages show and do, with the same roles."""

from collections.abc import Awaitable, Callable
from types import NoneType
from typing import Any, TypeAlias, get_type_hints

from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from treadle.text.masking import masked
from treadle.web.dashboard.api import openapi
from treadle.web.dashboard.api.model import model_of
from treadle.web.dashboard.api.validation import read_body, read_query
from treadle.web.dashboard.routes import SAFE_METHODS, Context, RouteSpec
from treadle.web.dashboard.security.access import Role

Operation: TypeAlias = Callable[[Context, Any], Awaitable[tuple[Any, ...]]]


def endpoint(method: str, path: str, operation: Operation, summary: str, seconds: float | None = None) -> RouteSpec:
    """The route of an operation, which is described by its annotations: `given` is the model of the query or of the
    body, or None, and what it returns is a NamedTuple."""
    types = get_type_hints(operation)
    given_model: type[BaseModel] | None = None if types["given"] is NoneType else types["given"]
    response_model = model_of(types["return"])
    is_read = method in SAFE_METHODS

    async def respond(context: Context) -> Response:
        given = read_query(context, given_model) if is_read or given_model is None else read_body(context, given_model)
        # Every response is masked here, so that no operation can forget it.
        response = response_model.model_validate(masked(await operation(context, given)))
        return Response(response.model_dump_json(), media_type="application/json")

    return RouteSpec(
        method,
        path,
        respond,
        Role.VIEWER if is_read else Role.OPERATOR,
        summary,
        response_model,
        body_model=None if is_read else given_model,
        query_model=given_model if is_read else None,
        seconds=seconds,
    )


def with_description(described: list[RouteSpec]) -> list[RouteSpec]:
    """These endpoints, and the one that describes them."""

    async def openapi_json(context: Context) -> Response:
        return JSONResponse(openapi.describe(described, context.url("")))

    summary = "The OpenAPI description of this API"
    return [
        *described,
        RouteSpec("GET", "/api/openapi.json", openapi_json, Role.VIEWER, summary, dict[str, Any]),
    ]
