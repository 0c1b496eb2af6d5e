"""A reference to something large that is stored beside the queue: small enough to travel in a payload or a result."""

import re
from collections.abc import Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pydantic_core import PydanticCustomError, SchemaSerializer, core_schema

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Stored:
    """What `app.store(…)` returns. As JSON: `{"stored": "<id>", "size": 1834, "digest": "<sha256>", "name": "a.png"}`,
    without the name if it has none."""

    id: UUID
    size: int
    digest: str
    name: str | None = None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        return _schema()

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: core_schema.CoreSchema, handler: Any) -> dict[str, Any]:
        text, number = {"type": "string"}, {"type": "integer", "minimum": 0}
        properties = {"stored": text | {"format": "uuid"}, "size": number, "digest": text, "name": text}
        required = ["stored", "size", "digest"]
        return {"title": "Stored", "type": "object", "properties": properties, "required": required}


class Noted:
    """`with Noted() as ids:` collects the id of each Stored that is turned into JSON inside it."""

    __slots__ = ("_token",)

    def __enter__(self) -> list[UUID]:
        ids: list[UUID] = []
        self._token: Token[list[UUID] | None] = _noted.set(ids)
        return ids

    def __exit__(self, *_: object) -> None:
        _noted.reset(self._token)


_noted: ContextVar[list[UUID] | None] = ContextVar("treadle_noted", default=None)


def _write(stored: Stored) -> dict[str, Any]:
    if (noted := _noted.get()) is not None:
        noted.append(stored.id)
    named = {} if stored.name is None else {"name": stored.name}
    return {"stored": str(stored.id), "size": stored.size, "digest": stored.digest, **named}


def _read(value: object) -> Stored:
    if isinstance(value, Stored):
        return value
    if isinstance(value, Mapping):
        size, digest, name = value.get("size"), value.get("digest"), value.get("name")
        try:
            stored_id = UUID(value.get("stored"))
        except (TypeError, ValueError, AttributeError):
            stored_id = None
        whole = isinstance(size, int) and not isinstance(size, bool) and size >= 0
        named = name is None or isinstance(name, str)
        if stored_id and whole and named and isinstance(digest, str) and _DIGEST.fullmatch(digest):
            return Stored(stored_id, size, digest, name)  # type: ignore[arg-type]
    raise PydanticCustomError("stored", "Input should be what app.store(…) returns: store the bytes or the file first")


def _schema() -> core_schema.CoreSchema:
    # A new one each time: pydantic writes into it.
    return core_schema.no_info_plain_validator_function(
        _read, serialization=core_schema.plain_serializer_function_ser_schema(_write)
    )


# Without an annotation, or with Any, pydantic uses the serializer of the value itself.
Stored.__pydantic_serializer__ = SchemaSerializer(_schema())  # type: ignore[attr-defined]
