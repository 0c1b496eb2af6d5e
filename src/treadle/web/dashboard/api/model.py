"""Pydantic models of responses, made of NamedTuples: operations return the values, and nothing restates them."""

import ast
import inspect
import re
import textwrap
from collections.abc import Mapping
from functools import cache, reduce
from itertools import pairwise
from operator import or_
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from treadle.web.dashboard.api.responses import SHOWN, Shown


class ResponseModel(BaseModel):
    model_config = ConfigDict(from_attributes=True, extra="forbid")


@cache
def model_of(value: type) -> type[ResponseModel]:
    """The model of a NamedTuple, and of those in its fields. JSON that it writes has every field."""
    shown = SHOWN.get(value) or Shown(value.__name__)
    types = {**get_type_hints(value), **shown.types}
    for name in shown.properties:
        types[name] = get_type_hints(getattr(value, name).fget)["return"]
    descriptions = _descriptions(value)
    fields: dict[str, Any] = {
        name: (_in_json(type_), Field(description=descriptions.get(name)))
        for name, type_ in types.items()
        if name not in shown.without
    }
    return create_model(shown.name, __base__=ResponseModel, __doc__=descriptions.get(""), **fields)


def _in_json(type_: Any) -> Any:
    """The same type, with models instead of NamedTuples."""
    if isinstance(type_, type) and hasattr(type_, "_fields"):
        return model_of(type_)
    origin = get_origin(type_)
    if origin is None or origin is Literal:
        return type_
    arguments = tuple(map(_in_json, get_args(type_)))
    return reduce(or_, arguments) if origin in (Union, UnionType) else origin[arguments]


def _descriptions(value: type) -> Mapping[str, str]:
    """The docstrings of the fields and properties; by an empty name, that of the value."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(value))).body
    assert isinstance(definition, ast.ClassDef)  # noqa: S101 - for the type checker
    found = {"": ast.get_docstring(definition)}
    for each, following in pairwise([*definition.body, ast.Pass()]):
        match each, following:
            case ast.FunctionDef(name=name), _:
                found[name] = ast.get_docstring(each)
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return {name: _with_null(text) for name, text in found.items() if text}


def _with_null(text: str) -> str:
    """Docstrings name Python's None, which is null in JSON."""
    return re.sub(r"\bNone\b", "null", re.sub(r"(^|\.\s)None\b", r"\1Null", text))
