"""The type of values that are stored as JSON. In a module of its own, because most modules that use it do not need the
checks in payload.py, which import pydantic_core, and the keeper has to start quickly."""

from typing import Any, TypeAlias

# What payload.py accepts. Not spelled out as a recursive type: a dict[str, int] would not be one.
Json: TypeAlias = Any
