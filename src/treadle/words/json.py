"""The type of what is stored as JSON. In a module of its own: most modules that name it do not need the checks in
payload.py, which import pydantic_core, and the keeper, which has to start quickly, imports some of them."""

from typing import Any, TypeAlias

# What payload.py accepts. Not spelled out as a recursive type: a dict[str, int] would not be one.
Json: TypeAlias = Any
