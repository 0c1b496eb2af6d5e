"""The description of the API (OpenAPI 3.1), made from the rules that serve it."""

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from treadle.web.dashboard.access import Role
from treadle.web.dashboard.answers import Refusal
from treadle.web.dashboard.routes import Rule

_REFS = "#/components/schemas/{model}"
_ID = {"type": "string", "format": "uuid"}
_REFUSED = {
    "400": "What was asked cannot be read",
    "401": "Nobody is known by this token or cookie",
    "403": "The role does not allow it, or a change came from elsewhere",
    "404": "There is no such job",
    "409": "The job's status does not allow it, or somebody else holds it",
    "413": "Too much was sent",
    "415": "Something else than JSON was sent",
    "429": "Too many wrong tokens came from this address",
    "503": "The queue cannot be reached",
}


def describe(rules: Sequence[Rule], root: str) -> dict[str, Any]:
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [(Refusal, "serialization")]
    for rule in rules:
        models.append((rule.gives, "serialization"))
        models.extend((each, "validation") for each in (rule.takes, rule.asks) if each is not None)
    schemas = _schemas(models)
    paths: dict[str, dict[str, Any]] = {}
    for rule in rules:
        paths.setdefault(rule.path, {})[rule.method.lower()] = _operation(rule, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Treadle", "version": version("treadle"), "description": _ABOUT},
        "servers": [{"url": root or "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": _TOKEN}},
        },
    }


_ABOUT = 'What the dashboard shows and does, for programs. Errors are a sentence: `{"error": "…"}`.'
_TOKEN = "The secret of a viewer or of an operator."  # noqa: S105 - says what it is


def _schemas(models: Sequence[tuple[type[BaseModel], JsonSchemaMode]]) -> dict[str, Any]:
    _, made = models_json_schema(list(dict.fromkeys(models)), ref_template=_REFS)
    return dict(made["$defs"])


def _operation(rule: Rule, schemas: dict[str, Any]) -> dict[str, Any]:
    names = re.findall(r"\{(\w+)\}", rule.path)
    asked = [] if rule.asks is None else _parameters(schemas[rule.asks.__name__])
    refused = {
        status: said
        for status, said in _REFUSED.items()
        if (status != "404" or names) and (status not in ("409", "413", "415") or rule.takes)
    }
    made: dict[str, Any] = {
        "operationId": f"{rule.method.lower()}_{re.sub(r'[^a-z]+', '_', rule.path.removeprefix('/api/')).strip('_')}",
        "summary": rule.summary,
        "description": f"Needs the role {Role(rule.role).name.lower()}.",
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string", "format": "uuid"}}
                for name in names
            ),
            *asked,
        ],
        "responses": {
            "200": {"description": "Done", "content": _json(rule.gives)},
            **{status: {"description": said, "content": _json(Refusal)} for status, said in refused.items()},
        },
    }
    if rule.takes is not None:
        required = bool(schemas[rule.takes.__name__].get("required"))
        made["requestBody"] = {"required": required, "content": _json(rule.takes)}
    return made


def _parameters(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """A parameter that is left out is not null: only what it is otherwise can be said in an address."""
    return [
        {"name": name, "in": "query", "required": False, "schema": _not_null(each)}
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
