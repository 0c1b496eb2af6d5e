"""Encodes values by their annotation, and refuses those that it would decode to something else.

A value of plain JSON types comes back as it is. Any other value is decoded again and compared: a set[int] comes back as
a set, but a set without an annotation would come back as a list.
"""

import dataclasses
from collections import OrderedDict, deque
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal
from uuid import UUID

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError, ValidationError

from treadle.words.errors import InvalidPayload
from treadle.words.payload import Refused, check, encode, write
from treadle.words.stored import Stored

_SCALARS = {str, int, float, bool, bytes, type(None), UUID, Decimal, date, timedelta}
_PLAIN = {"str", "int", "float", "bool", "none"}
_SEQUENCES = (list, tuple, deque)
_SETS = (set, frozenset)
_IDENTITY: Any = object.__eq__
ADVICE = "annotate it with its type, or convert it first"


class Encoder:
    """Encodes the values of one annotation. With `validated`, they have passed its validation."""

    def __init__(self, adapter: TypeAdapter[Any], *, validated: bool = False) -> None:
        self._adapter = adapter
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
            dumped = self._adapter.dump_python(value, mode="json", warnings=self._warnings)
        except Exception as error:
            raise self._unserializable(value, refused, name, error) from _cause(error)
        if trusted and dumped == value:
            return write(value, exact, limit, name)
        text = encode(dumped, limit, name)
        try:
            _compare(
                value if self._validated else self._adapter.validate_python(value), self._adapter.validate_json(text)
            )
        except Refused as found:
            raise found.at(name) from None
        except (ValidationError, RecursionError) as error:
            problem = explained(error) if isinstance(error, ValidationError) else "nested too deeply"
            raise InvalidPayload(name, f"its JSON does not fit its annotation again: {problem}", ADVICE) from None
        return text

    def _unserializable(self, value: Any, refused: Refused | None, name: str, error: Exception) -> InvalidPayload:
        """Pydantic says neither where the value is nor, safely, what it is: its messages quote it."""
        try:
            self._adapter.validate_python(value)
        except ValidationError as invalid:
            path, problem = first_problem(invalid)
            return InvalidPayload(f"{name}{path}", problem, ADVICE)
        except Exception as unexpected:
            error = unexpected
        if refused is not None:
            return refused.at(name)
        problem = f"{_a_type(value)} cannot be encoded by its annotation ({type(error).__name__})"
        return InvalidPayload(name, problem, ADVICE)


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


def _compare(one: Any, two: Any) -> None:
    """Raise Refused unless both are equal and of the same type, at every level."""
    kind: Any = type(one)
    if kind is not type(two):
        if isinstance(one, Stored) and type(two) is dict:
            return  # the one documented exception: without an annotation, the handler receives the dict
        raise Refused(f"{_a_type(one)} would come back as {type(two).__name__}", ADVICE)
    if kind in _SCALARS:
        equal = one == two
    elif isinstance(one, dict):
        _compare_dicts(one, two)
        return
    elif (names := _field_names(one.__class__)) is not None:
        for name in names:
            _compare_at(name, getattr(one, name, None), getattr(two, name, None))
        _compare_at("", getattr(one, "__pydantic_extra__", None), getattr(two, "__pydantic_extra__", None))
        return
    elif isinstance(one, _SEQUENCES):
        equal = len(one) == len(two)
        for index, (item, other) in enumerate(zip(one, two, strict=False)):
            _compare_at(index, item, other)
    elif isinstance(one, _SETS):
        equal = {(type(each), each) for each in one} == {(type(each), each) for each in two}
    elif isinstance(one, datetime) and one.tzinfo is not None and two.tzinfo is not None:
        # Not as they are: Python finds that an hour which a time zone repeats never equals one of another time zone.
        equal = one.astimezone(UTC) == two.astimezone(UTC)
    else:
        equal = _equal(one, two)
    if not equal:
        raise Refused(f"{_a_type(one)} would come back with another value", ADVICE)


def _compare_at(step: str | int, one: Any, two: Any) -> None:
    """Compare what is at this index, key or field."""
    try:
        _compare(one, two)
    except Refused as refused:
        if step != "":
            refused.inside(step)
        raise


def _compare_dicts(one: dict[Any, Any], two: dict[Any, Any]) -> None:
    if len(one) != len(two):
        raise Refused(
            f"{_a_type(one)} whose keys are not different as JSON: {len(one) - len(two)} would be lost",
            "JSON keys are strings: use str(…)",
        )
    if isinstance(one, OrderedDict) and len(one) > 1:
        raise Refused("an OrderedDict: the database does not keep the order of keys", "use a list of pairs")
    for (key, item), (other_key, other) in zip(one.items(), two.items(), strict=True):
        if type(key) is not type(other_key) or not _equal(key, other_key):
            raise Refused(
                f"a key of type {type(key).__name__} would come back as {type(other_key).__name__}",
                "JSON keys are strings: use str(…), or annotate them, such as dict[int, str]",
            )
        _compare_at(str(key), item, other)


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
