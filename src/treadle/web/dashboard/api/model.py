"""Pydantic models of responses, made of NamedTuples: operations return the values, and nothing restates them."""

import ast
import inspect
import re
import sys
from functools import cache, reduce
from itertools import pairwise
from operator import or_
from types import UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, create_model
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from treadle.web.dashboard.api.responses import SHOWN, Shown


class ResponseModel(BaseModel):
    model_config = ConfigDict(from_attributes=True, extra="forbid")
    value: ClassVar[type]

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """With the docstrings, which are read from the source, so only when somebody asks."""
        described = handler(schema)
        found = handler.resolve_ref_schema(described)
        texts = _docstrings(cls.value.__module__).get(cls.value.__name__, {})
        for name, target in (("", found), *found["properties"].items()):
            if name in texts:
                target["description"] = texts[name]
        return described


@cache
def model_of(value: type) -> type[ResponseModel]:
    """The model of a NamedTuple, and of those in its fields. JSON that it writes has every field."""
    shown = SHOWN.get(value) or Shown(value.__name__)
    types = {**get_type_hints(value), **shown.types}
    for name in shown.properties:
        types[name] = get_type_hints(getattr(value, name).fget)["return"]
    fields: dict[str, Any] = {
        name: (_in_json(type_), ...) for name, type_ in types.items() if name not in shown.without
    }
    model = create_model(shown.name, __base__=ResponseModel, **fields)
    model.value = value
    return model


def _in_json(type_: Any) -> Any:
    """The same type, with models instead of NamedTuples."""
    if isinstance(type_, type) and hasattr(type_, "_fields"):
        return model_of(type_)
    origin = get_origin(type_)
    if origin is None or origin is Literal:
        return type_
    arguments = tuple(map(_in_json, get_args(type_)))
    return reduce(or_, arguments) if origin in (Union, UnionType) else origin[arguments]


@cache
def _docstrings(module: str) -> dict[str, dict[str, str]]:
    """By the names of classes and of their fields and properties; by an empty name, that of the class."""
    try:
        body = ast.parse(inspect.getsource(sys.modules[module])).body
    except OSError:  # the sources are not installed
        return {}
    return {each.name: _docstrings_of(each) for each in body if isinstance(each, ast.ClassDef)}


def _docstrings_of(definition: ast.ClassDef) -> dict[str, str]:
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
