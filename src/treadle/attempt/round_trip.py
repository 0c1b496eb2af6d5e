"""Encodes values by their annotation, and refuses those that it would decode to something else.

A value of plain JSON types comes back as it is. Any other value is decoded again and compared: a set[int] comes back as
a set, but a set without an annotation would come back as a list.
"""

import dataclasses
from collections import OrderedDict, deque
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any, Literal
from uuid import UUID

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError, SchemaSerializer, ValidationError

from treadle.words.errors import InvalidPayload
from treadle.words.payload import DEPTH_LIMIT, NotJson, Refused, check, encode, write
from treadle.words.stored import Stored

_SCALARS = {str, int, float, bool, bytes, type(None), UUID, Decimal, date, timedelta}
_PLAIN = {"str", "int", "float", "bool", "none"}
_SEQUENCES = (list, tuple, deque)
_SETS = (set, frozenset)
_CONTAINERS = (*_SETS, tuple, deque)
_TEXTS = (datetime, date, time, timedelta, UUID, Decimal, bytes)
_JSON = (str, int, float, bool, type(None), list, dict)
_IDENTITY: Any = object.__eq__
ADVICE = "annotate it with its type, or convert it first"


class Encoder:
    """Encodes the values of one annotation. With `validated`, they have passed its validation. With `as_json`, a value
    may come back as its JSON where the annotation does not say more: a tuple as a list, a datetime as text."""

    def __init__(self, adapter: TypeAdapter[Any], *, validated: bool = False, as_json: bool = False) -> None:
        self._adapter = adapter
        self._serializer = _without_computed_fields(adapter)
        self._as_json = as_json
        # Without validation, pydantic's warnings are all that says that a value does not fit.
        self._warnings: Literal["error"] | bool = True if validated else "error"
        self._validated = validated
        self._trusts_plain = not _converts(adapter.core_schema)

    def encode(self, value: Any, limit: int, name: str) -> str:
        """The JSON text of a value, from which the adapter makes an equal value of the same type again. InvalidPayload
        with its path if it would not."""
        refused: Refused | None = None
        exact = True
        try:
            exact = check(value, limit)
        except Refused as found:
            refused = found
        trusted = refused is None and self._trusts_plain
        if trusted and self._validated:
            return write(value, exact, limit, name)
        try:
            dumped = self._serializer.to_python(value, mode="json", warnings=self._warnings)
        except Exception as error:
            if not self._as_json or (converted := self._converted(value)) is None:
                raise self._unserializable(value, refused, name, error) from _cause(error)
            value, dumped = converted
        if trusted and dumped == value:
            return write(value, exact, limit, name)
        text = encode(dumped, limit, name)
        try:
            _compare(
                value if self._validated else self._adapter.validate_python(value),
                self._adapter.validate_json(text),
                self._as_json,
            )
        except Refused as found:
            raise found.at(name) from None
        except (ValidationError, RecursionError) as error:
            problem = explained(error) if isinstance(error, ValidationError) else "nested too deeply"
            raise InvalidPayload(name, f"its JSON does not fit its annotation again: {problem}", ADVICE) from None
        return text

    def _converted(self, value: Any) -> tuple[Any, Any] | None:
        """A value of another type that is the same as JSON, such as a tuple for list[int]: as its annotation has it,
        and encoded."""
        try:
            converted = self._adapter.validate_python(value)
            _compare(value, converted, as_json=True)
            return converted, self._serializer.to_python(converted, mode="json", warnings="error")
        except Exception:
            return None

    def _unserializable(self, value: Any, refused: Refused | None, name: str, error: Exception) -> InvalidPayload:
        """Pydantic says neither where the value is nor, safely, what it is: its messages quote it."""
        try:
            self._adapter.validate_python(value)
        except ValidationError as invalid:
            path, problem = first_problem(invalid)
            return InvalidPayload(f"{name}{path}", problem, ADVICE)
        except Exception as unexpected:
            error = unexpected
        if (undecodable := _bytes_without_text(value)) is not None:
            return undecodable.at(name)
        # Its annotation can encode a tuple or a set: something inside is the problem.
        if refused is not None and not (isinstance(refused, NotJson) and isinstance(refused.value, _CONTAINERS)):
            return refused.at(name)
        problem = f"{_a_type(value)} cannot be encoded by its annotation ({type(error).__name__})"
        return InvalidPayload(name, problem, ADVICE)


def _without_computed_fields(adapter: TypeAdapter[Any]) -> Any:
    """Its serializer, without the fields of dataclasses that are no parameters: `field(init=False)`. Decoding them
    would fail; the dataclass computes them again, and the comparison finds those that have been changed since."""

    def without(schema: Any) -> Any:
        if isinstance(schema, dict):
            kept = {key: without(each) for key, each in schema.items() if key != "metadata"}
            if kept.get("type") == "dataclass-field" and kept.get("init") is False:
                kept["serialization_exclude"] = True
            return kept
        return [without(each) for each in schema] if type(schema) is list else schema

    if not _has_computed_fields(adapter.core_schema):
        return adapter.serializer
    return SchemaSerializer(without(adapter.core_schema))


def _has_computed_fields(schema: Any) -> bool:
    if isinstance(schema, dict):
        if schema.get("type") == "dataclass-field" and schema.get("init") is False:
            return True
        return any(_has_computed_fields(each) for key, each in schema.items() if key not in ("metadata", "default"))
    return isinstance(schema, list | tuple) and any(map(_has_computed_fields, schema))


def _bytes_without_text(value: Any, depth: int = 0) -> Refused | None:
    """Bytes that are no UTF-8, which JSON cannot have."""
    parts: Any = ()
    if depth > DEPTH_LIMIT:
        return None
    if isinstance(value, bytes):
        try:
            value.decode()
        except UnicodeDecodeError:
            return Refused(
                "a value of type bytes that is no UTF-8 text",
                "send it as text, such as base64.b64encode(…).decode(), or with app.store(…)",
            )
    elif isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, (*_SEQUENCES, *_SETS)):
        parts = enumerate(value)
    elif (names := _field_names(value.__class__)) is not None:
        parts = ((name, getattr(value, name, None)) for name in names)
    for step, each in parts:
        if (found := _bytes_without_text(each, depth + 1)) is not None:
            found.inside(step)
            return found
    return None


def _converts(schema: Any) -> bool:
    """Whether pydantic may change a value of plain JSON types when it encodes or decodes it: a serializer or validator
    of the user, a string that contains JSON, or a union such as datetime | str, where a string may be a datetime."""
    if isinstance(schema, dict):
        kind = schema.get("type")
        if "serialization" in schema or (isinstance(kind, str) and (kind == "json" or kind.startswith("function-"))):
            return True
        if kind in ("union", "tagged-union") and not _is_plain(schema["choices"]):
            return True
        return any(_converts(each) for key, each in schema.items() if key not in ("metadata", "default"))
    return isinstance(schema, list | tuple) and any(map(_converts, schema))


def _is_plain(choices: Any) -> bool:
    """Whether each choice of a union is a type that JSON has."""
    listed = choices.values() if isinstance(choices, dict) else choices
    return all(isinstance(each, dict) and each.get("type") in _PLAIN for each in listed)


def explained(error: ValidationError) -> str:
    """The first problem in a sentence, and how many more there are. It has the type of the value, not the value."""
    path, problem = first_problem(error)
    return f"{path.lstrip('.')}: {problem}" if path else problem


def first_problem(error: ValidationError) -> tuple[str, str]:
    """Where the first problem is, and what it is."""
    first, *others = error.errors(include_url=False)
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    got = "" if first["type"] == "missing" else f", got {_a_type(first['input'])}"
    more = f" (and {len(others)} more)" if others else ""
    return path, f"{first['msg']}{got}{more}"


def _cause(error: Exception) -> Exception | None:
    """An error of the user's own serializer is worth reading. Those of pydantic quote the value."""
    return None if isinstance(error, PydanticSerializationError | ValueError | RecursionError) else error


def _compare(one: Any, two: Any, as_json: bool = False) -> None:
    """Raise Refused unless both are equal and of the same type, at every level; or, with `as_json`, the second is the
    JSON of the first."""
    kind: Any = type(one)
    if kind is not type(two):
        if isinstance(one, Stored) and type(two) is dict:
            return  # the one documented exception: without an annotation, the handler receives the dict
        if as_json and _is_json_of(one, two):
            return
        raise Refused(f"{_a_type(one)} would come back as {type(two).__name__}", ADVICE)
    if kind in _SCALARS:
        equal = one == two
    elif isinstance(one, dict):
        _compare_dicts(one, two, as_json)
        return
    elif (names := _field_names(one.__class__)) is not None:
        for name in names:
            _compare_at(name, getattr(one, name, None), getattr(two, name, None), as_json)
        _compare_at("", getattr(one, "__pydantic_extra__", None), getattr(two, "__pydantic_extra__", None), as_json)
        return
    elif isinstance(one, _SEQUENCES):
        equal = len(one) == len(two)
        for index, (item, other) in enumerate(zip(one, two, strict=False)):
            _compare_at(index, item, other, as_json)
    elif isinstance(one, _SETS):
        equal = {(type(each), each) for each in one} == {(type(each), each) for each in two}
    elif isinstance(one, datetime) and one.tzinfo is not None and two.tzinfo is not None:
        # Not as they are: Python finds that an hour which a time zone repeats never equals one of another time zone.
        equal = one.astimezone(UTC) == two.astimezone(UTC)
    else:
        equal = _equal(one, two)
    if not equal:
        raise Refused(f"{_a_type(one)} would come back with another value", ADVICE)


def _is_json_of(one: Any, two: Any) -> bool:
    """Whether a value of another type is all of the first one, without what its type says."""
    if type(two) not in _JSON:
        return False
    if isinstance(one, Enum):
        _compare(one.value, two, as_json=True)
        return True
    if isinstance(one, dict) and isinstance(two, dict):
        _compare_dicts(dict(one), two, as_json=True)
        return True
    if isinstance(one, (*_SEQUENCES, *_SETS)) and isinstance(two, list):
        _compare(list(one), two, as_json=True)
        return True
    if isinstance(two, dict) and (names := _field_names(one.__class__)) is not None:
        _compare_dicts({name: getattr(one, name) for name in names}, two, as_json=True)
        return True
    if isinstance(one, str | int | float):
        return bool(one == two)
    return isinstance(one, _TEXTS)


def _compare_at(step: str | int, one: Any, two: Any, as_json: bool) -> None:
    """Compare what is at this index, key or field."""
    try:
        _compare(one, two, as_json)
    except Refused as refused:
        if step != "":
            refused.inside(step)
        raise


def _compare_dicts(one: dict[Any, Any], two: dict[Any, Any], as_json: bool) -> None:
    if len(one) != len(two):
        raise Refused(
            f"{_a_type(one)} whose keys are not different as JSON: {len(one) - len(two)} would be lost",
            "JSON keys are strings: use str(…)",
        )
    if isinstance(one, OrderedDict) and len(one) > 1 and not as_json:
        raise Refused("an OrderedDict: the database does not keep the order of keys", "use a list of pairs")
    for (key, item), (other_key, other) in zip(one.items(), two.items(), strict=True):
        if (type(key) is not type(other_key) or not _equal(key, other_key)) and not as_json:
            raise Refused(
                f"a key of type {type(key).__name__} would come back as {type(other_key).__name__}",
                "JSON keys are strings: use str(…), or annotate them, such as dict[int, str]",
            )
        _compare_at(str(key), item, other, as_json)


@lru_cache(1024)
def _field_names(kind: Any) -> tuple[str, ...] | None:
    """The fields of a model or a dataclass; None for any other type."""
    if (fields := getattr(kind, "__pydantic_fields__", None)) is not None:
        return tuple(fields)
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


def _equal(one: Any, two: Any) -> bool:
    if type(one).__eq__ is _IDENTITY:
        return True  # objects without a notion of equality: of the same type is all that can be said
    try:
        return bool(one == two)
    except Exception:  # such as an array, whose comparison is an array
        return True


def _a_type(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
