"""Validates query parameters and request bodies against their models."""

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from treadle.web.dashboard.routes import Context
from treadle.words.errors import InvalidArgument, shown

Model = TypeVar("Model", bound=BaseModel)


def read_query(context: Context, model: type[Model] | None) -> Model | None:
    given = context.request.query_params
    if len(given.multi_items()) > len(given):
        raise InvalidArgument("a query parameter was given more than once")
    if model is None:
        if given:
            raise InvalidArgument(f"this endpoint has no query parameters, got {shown(next(iter(given)))}")
        return None
    return _validate(model, dict(given))


def read_body(context: Context, model: type[Model]) -> Model:
    headers = context.request.headers
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    is_empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
    if content_type != "application/json" and not is_empty:
        raise HTTPException(415, "send JSON with the header Content-Type: application/json")
    return _validate(model, {} if is_empty else context.json)


def _validate(model: type[Model], given: Any) -> Model:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidArgument(f"{shown(where) + ': ' if where else ''}{first['msg']}") from None
