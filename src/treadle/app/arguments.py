"""A function's parameters as the payload of its job: checked and turned into JSON, and back, by their annotations."""

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from types import NoneType, UnionType
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic cannot use the standard library's before Python 3.12

from treadle.app.job import Job
from treadle.words.errors import InvalidJob, InvalidPayload
from treadle.words.payload import Json

# NaN is refused later, with its path; it must not become null on the way.
_EXACT = ConfigDict(ser_json_inf_nan="constants")
_REFUSED: dict[object, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "a positional-only parameter",
    inspect.Parameter.VAR_POSITIONAL: "a *parameter",
}


class Arguments:
    """Annotations are looked at when they are first needed, so that they may name what is defined later."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._signature = inspect.signature(function)
        for parameter in self._signature.parameters.values():
            if kind := _REFUSED.get(parameter.kind):
                raise InvalidJob(
                    f"{_name(function)} has {kind}, {parameter.name}: a payload is a set of named values; "
                    "use parameters that can be given by name"
                )

    @cached_property
    def job_parameter(self) -> str | None:
        """The parameter that the running job is handed in for."""
        found = [name for name in self._signature.parameters if _is_job(self._hints.get(name))]
        if len(found) > 1:
            raise InvalidJob(f"{_name(self._function)} asks for the job more than once: {', '.join(found)}")
        return found[0] if found else None

    def bind(self, positional: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Json]:
        """The payload of a call."""
        try:
            bound = self._caller.bind(*positional, **named)
        except TypeError as error:
            raise InvalidPayload(
                _name(self._function), str(error), f"it takes {self._caller} (the job is handed in)"
            ) from None
        given = bound.arguments
        if self._open_ended:
            given.update(given.pop(self._open_ended, {}))
        return self.check(given)

    def check(self, given: Mapping[str, Any]) -> dict[str, Json]:
        """The payload of arguments by name."""
        adapter = self._adapter
        try:
            dumped: dict[str, Json] = adapter.dump_python(adapter.validate_python(given), mode="json")
        except ValidationError as error:
            raise _explained(error, _name(self._function)) from None
        return dumped

    def load(self, text: str) -> dict[str, Any]:
        """The arguments from a payload."""
        try:
            loaded: dict[str, Any] = self._adapter.validate_json(text)
        except ValidationError as error:
            raise _explained(error, _name(self._function)) from None
        return loaded

    def check_annotations(self) -> None:
        """Raise InvalidJob if they cannot be read: before the first job is claimed, not when it is run."""
        _ = self.job_parameter, self._adapter, self.result

    @cached_property
    def result(self) -> TypeAdapter[Any]:
        """What the function returns."""
        return self._adapted(self._hints.get("return", Any))

    @cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return get_type_hints(self._function, include_extras=True)
        except NameError as error:
            raise InvalidJob(f"the annotations of {_name(self._function)} cannot be read: {error}") from None

    @cached_property
    def _caller(self) -> inspect.Signature:
        kept = [value for name, value in self._signature.parameters.items() if name != self.job_parameter]
        return self._signature.replace(parameters=kept, return_annotation=inspect.Signature.empty)

    @cached_property
    def _open_ended(self) -> str | None:
        """The **parameter, if there is one."""
        return next((p.name for p in self._caller.parameters.values() if p.kind == p.VAR_KEYWORD), None)

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        # A TypedDict: any name may be a key, where a model's fields must not be called json, copy or schema.
        fields: dict[str, Any] = {}
        for name, parameter in self._caller.parameters.items():
            if name != self._open_ended:
                hint = self._hints.get(name, Any)
                fields[name] = hint if parameter.default is parameter.empty else NotRequired[hint]
        shape: Any = _typed_dict(f"{self._function.__name__}_arguments", fields)
        shape.__module__ = self._function.__module__ if self._function.__module__ in sys.modules else __name__
        shape.__pydantic_config__ = ConfigDict(extra="allow" if self._open_ended else "forbid", **_EXACT)
        return self._adapted(shape)

    def _adapted(self, shape: Any) -> TypeAdapter[Any]:
        try:
            try:
                return TypeAdapter(shape, config=_EXACT)
            except PydanticUserError as error:
                if error.code != "type-adapter-config-unused":
                    raise
                return TypeAdapter(shape)  # a model has its own
        except PydanticUserError as error:
            raise InvalidJob(
                f"{_name(self._function)} has an annotation that cannot be a payload: {error.message.splitlines()[0]}"
            ) from None


# By another name: a type checker wants to see the fields.
_typed_dict: Any = TypedDict


def _is_job(hint: object) -> bool:
    if get_origin(hint) in (Union, UnionType):
        return any(_is_job(part) for part in get_args(hint) if part is not NoneType)
    return isinstance(hint, type) and issubclass(hint, Job)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function)).removeprefix("<locals>.")


def _explained(error: ValidationError, name: str) -> InvalidPayload:
    """The first thing that is wrong, in a sentence; the others by number."""
    first, *others = error.errors(include_url=False)
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    came = "" if first["type"] == "missing" else f", got {_shown(first['input'])}"
    more = f" (and {len(others)} more)" if others else ""
    return InvalidPayload(f"{name}{where}", f"{first['msg']}{came}{more}", "see the function's signature")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"
