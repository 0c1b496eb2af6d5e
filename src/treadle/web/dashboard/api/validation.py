"""Validates query parameters and request bodies against their models."""

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException

from treadle.web.dashboard.routes import Context
from treadle.words.errors import InvalidArgument, shown

Model = TypeVar("Model", bound=BaseModel)

# By the type of pydantic's error.
_EXPECTED = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be a JSON object",
    "enum": "must be {expected}",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": "must be an integer",
    "int_parsing": "must be an integer",
    "int_parsing_size": "must be an integer of at most 64 bits",
    "int_type": "must be an integer",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "model_attributes_type": "must be a JSON object",
    "model_type": "must be a JSON object",
    "string_pattern_mismatch": "must not be empty or contain NUL characters or line breaks",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must not be empty",
    "string_type": "must be a string",
    "string_unicode": "must not contain unpaired surrogates",
    "too_long": "must have at most {max_length} entries",
    "too_short": "must have at least {min_length} entry",
    "uuid_parsing": "must be a UUID",
    "uuid_type": "must be a UUID",
}


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
        raise InvalidArgument(_sentence(model, error.errors(include_url=False)[0])) from None


def _sentence(model: type[BaseModel], error: ErrorDetails) -> str:
    """What was expected and what came, in words of our own: those of pydantic name its classes and patterns."""
    kind, context = error["type"], error.get("ctx", {})
    where = shown(".".join(map(str, error["loc"])))[1:-1] if error["loc"] else "the body"
    if kind == "value_error":
        # Of a combination of fields, if there is no place.
        return f"{where + ': ' if error['loc'] else ''}{context['error']}"
    if kind == "missing":
        return f"{where} is required"
    if kind == "extra_forbidden":
        known = ", ".join(model.model_fields) if len(error["loc"]) == 1 else ""
        return f"there is no parameter {where}{f'; there are: {known}' if known else ''}"
    expected = _EXPECTED.get(kind)
    if expected is None:
        return f"{where}: {error['msg']}, got {_value(error['input'])}"
    return f"{where} {expected.format(**context)}, got {_value(error['input'])}"


def _value(given: Any) -> str:
    if isinstance(given, dict | list):
        return "an object" if isinstance(given, dict) else f"a list of {len(given)}"
    return shown(given)
