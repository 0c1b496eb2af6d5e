"""Generates the description of the API (OpenAPI 3.1) from its routes."""

import re
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from treadle.web.dashboard.api import responses
from treadle.web.dashboard.api.model import model_of
from treadle.web.dashboard.routes import RouteSpec
from treadle.web.dashboard.security.access import Role

_REFS = "#/components/schemas/{model}"
_ERROR = model_of(responses.Error)
_ERRORS = {
    "400": "The parameters or the request body are invalid",
    "401": "The token or session is missing or not valid",
    "403": "The role does not allow it, or the request came from another site",
    "404": "The job, the schedule, the limit or the worker does not exist",
    "409": "The status of the job does not allow it, or another transaction has locked the job",
    "413": "The request body is too large",
    "415": "The request body is not JSON",
    "429": "Too many wrong tokens from this address",
    "503": "The database is unavailable",
}


def describe(routes: Sequence[RouteSpec], mount_path: str) -> dict[str, Any]:
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [(_ERROR, "serialization")]
    for route in routes:
        models.append((route.response_model, "serialization"))
        models.extend((each, "validation") for each in (route.body_model, route.query_model) if each is not None)
    schemas = _schemas(tuple(dict.fromkeys(models)))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Treadle", "version": version("treadle"), "description": _ABOUT},
        "servers": [{"url": mount_path or "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": _TOKEN}},
        },
    }


_ABOUT = 'Inspects and operates the queue, like the pages of the dashboard. Errors are `{"error": "…"}`.'
_TOKEN = "The viewer or operator secret of the dashboard."  # noqa: S105 - a description


@cache
def _schemas(models: tuple[tuple[type[BaseModel], JsonSchemaMode], ...]) -> dict[str, Any]:
    _, schema = models_json_schema(models, ref_template=_REFS)
    return dict(schema["$defs"])


def _operation(route: RouteSpec, schemas: dict[str, Any]) -> dict[str, Any]:
    names = re.findall(r"\{(\w+)\}", route.path)
    query_parameters = [] if route.query_model is None else _parameters(schemas[route.query_model.__name__])
    # A schedule or a worker is named by a parameter: its name may contain a slash.
    models = [model for model in (route.body_model, route.query_model) if model is not None]
    is_of_one = bool(names) or any({"name", "worker_id"} & model.model_fields.keys() for model in models)
    errors = {
        status: description
        for status, description in _ERRORS.items()
        if (status != "404" or is_of_one) and (status not in ("409", "413", "415") or route.body_model)
    }
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}_{re.sub(r'[^a-z]+', '_', route.path.removeprefix('/api/')).strip('_')}",
        "summary": route.summary,
        "description": f"Requires the role {Role(route.role).name.lower()}.",
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string", "format": "uuid"}}
                for name in names
            ),
            *query_parameters,
        ],
        "responses": {
            "200": {"description": "Success", "content": _json(route.response_model)},
            **{
                status: {"description": description, "content": _json(_ERROR)} for status, description in errors.items()
            },
        },
    }
    if route.body_model is not None:
        required = bool(schemas[route.body_model.__name__].get("required"))
        operation["requestBody"] = {"required": required, "content": _json(route.body_model)}
    return operation


def _parameters(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Query parameters are optional but never null, so null is removed from their schemas."""
    return [
        {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": _not_null(each)}
        for name, each in schema["properties"].items()
    ]


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    some = [each for each in schema.get("anyOf", []) if each != {"type": "null"}]
    kept = {name: value for name, value in schema.items() if name not in ("anyOf", "default") or value is not None}
    if len(some) != 1:
        return kept
    return {**{name: value for name, value in kept.items() if name != "anyOf"}, **some[0]}


def _json(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REFS.format(model=model.__name__)}}}
