"""Converts between the arguments of a function and the JSON payload of its job, by the annotations of the function."""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from functools import cached_property, lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json
from typing_extensions import TypeAliasType, TypedDict  # pydantic needs these before Python 3.12

from treadle.attempt.attempt import Attempt
from treadle.attempt.job import Job, job_of
from treadle.attempt.round_trip import Encoder, first_problem
from treadle.jobs.outputs import annotation_of, fits, outputs_of
from treadle.words.errors import InvalidArgument, InvalidJob, InvalidPayload
from treadle.words.payload import Encoded, Json, check_size

# NaN must not become null here; it is refused later, in an error with its path.
_EXACT = ConfigDict(ser_json_inf_nan="constants")
_REFUSED: dict[object, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "a positional-only parameter",
    inspect.Parameter.VAR_POSITIONAL: "a *parameter",
}


class Arguments:
    """Annotations are evaluated on first use, so that they may name what is defined later in the module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._signature = inspect.signature(function)
        self._name = _name(function)
        for parameter in self._signature.parameters.values():
            if kind := _REFUSED.get(parameter.kind):
                raise InvalidJob(
                    f"{_name(function)} has {kind}, {parameter.name}: a payload consists of named values; "
                    "use parameters that can be passed by name"
                )

    @cached_property
    def job_parameter(self) -> str | None:
        """The parameter that receives the running job, if there is one."""
        found = [name for name in self._signature.parameters if _is_job(self._hints.get(name))]
        if len(found) > 1:
            raise InvalidJob(f"{self._name} has more than one Job parameter: {', '.join(found)}")
        return found[0] if found else None

    def bind(self, positional: tuple[Any, ...], named: dict[str, Any], limit: int) -> Encoded:
        """The payload for a call with these arguments."""
        if not positional and named.keys() == self._names:
            return self.encode(named, limit)  # the usual call; binding would double the time
        return self.encode(self._by_name(positional, named), limit)

    def separate(
        self, positional: tuple[Any, ...], named: dict[str, Any], limit: int
    ) -> tuple[Encoded, dict[str, Any]]:
        """The payload for a call, without the arguments that are results of other jobs; and those."""
        if not any(map(outputs_of, (*positional, *named.values()))):
            return self.bind(positional, named, limit), {}
        given = self._by_name(positional, named)
        later = {name: value for name, value in given.items() if outputs_of(value)}
        for name, value in later.items():
            returned = annotation_of(value)
            if not fits(returned, self._takes(name)):
                raise InvalidPayload(
                    f"{self._name}.{name}",
                    f"it gets the result of another job, which is {_shown(returned)}",
                    f"it takes {_shown(self._takes(name))}",
                )
        return self.encode_some({name: value for name, value in given.items() if name not in later}, limit), later

    def encode_some(self, given: Mapping[str, Any], limit: int) -> Encoded:
        """The part of a payload that has these arguments."""
        texts = []
        for name, value in given.items():
            if self._names is not None and name not in self._names:
                raise InvalidPayload(f"{self._name}.{name}", "there is no such argument", self._shown)
            adapter = self._adapted(self._takes(name))
            try:
                checked = adapter.validate_python(value)
            except ValidationError as error:
                path, problem = first_problem(error)
                raise InvalidPayload(f"{self._name}.{name}{path}", problem, self._shown) from None
            text = Encoder(adapter, validated=True).encode(checked, limit, f"{self._name}.{name}")
            texts.append(f"{to_json(name).decode()}:{text}")
        text = "{" + ",".join(texts) + "}"
        check_size(len(text.encode()), limit, self._name)
        return Encoded(text)

    def _by_name(self, positional: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        try:
            given = self._caller.bind(*positional, **named).arguments
        except TypeError as error:
            names = [*list(self._caller.parameters)[: len(positional)], *named]
            raise self._misnamed(names) or InvalidPayload(self._name, str(error), self._shown) from None
        if self._open_ended:
            given.update(given.pop(self._open_ended, {}))
        return given

    def encode(self, given: Mapping[str, Any], limit: int) -> Encoded:
        """The payload for arguments by name."""
        name = self._name
        if isinstance(given, Mapping) and self.job_parameter in given:
            raise InvalidPayload(name, f"{self.job_parameter} is the job, which the worker passes", "leave it out")
        try:
            if self._others is None:
                return Encoded(self._encoder.encode(self._adapter.validate_python(given), limit, name))
            values = self._adapter.validate_python(given)
            others = self._others.validate_python(self._unnamed(given))
        except ValidationError as error:
            misnamed = self._misnamed(given) if isinstance(given, Mapping) else None
            raise misnamed or self._explained(error) from None
        except RecursionError:
            raise InvalidPayload(name, "an argument is nested too deeply, or contains itself", "flatten it") from None
        named = {key: value for key, value in values.items() if key in self._caller.parameters}
        rest = Encoder(self._others, validated=True).encode(others, limit, name)
        texts = self._encoder.encode(named, limit, name), rest
        text = "{" + ",".join(each[1:-1] for each in texts if each != "{}") + "}"
        check_size(len(text.encode()), limit, name)
        return Encoded(text)

    def load(self, text: str, attempt: Attempt) -> dict[str, Any]:
        """The arguments from a payload, with the job if the function has a parameter for it."""
        loaded = self.decode(text)
        if self.job_parameter is not None:
            loaded[self.job_parameter] = job_of(attempt)
        return loaded

    def decode(self, text: str) -> dict[str, Any]:
        """The arguments from a payload."""
        try:
            loaded: dict[str, Any] = self._adapter.validate_json(text)
            if self._others is not None:
                loaded.update(self._others.validate_python(self._unnamed(loaded)))
        except ValidationError as error:
            given = from_json(text)
            misnamed = self._misnamed(given) if isinstance(given, dict) else None
            raise misnamed or self._explained(error) from None
        return loaded

    def value_of(self, name: str, text: str) -> Json:
        """Interpret a value from the command line: as JSON (a number, true, false, null, a list or an object) if the
        parameter accepts that, else as text."""
        try:
            value = from_json(text, allow_inf_nan=False)
        except ValueError:
            return text
        if isinstance(value, str):
            return text
        try:
            taken = self._adapted(self._takes(name)).validate_python(value)
        except ValidationError:
            return text
        # A float has lost digits that a Decimal would keep.
        return text if isinstance(value, float) and isinstance(taken, Decimal) else value

    def check_annotations(self) -> None:
        """Raise InvalidJob if the annotations cannot be used: before a job is enqueued or claimed, not when it runs."""
        _ = self.job_parameter, self._adapter, self._others, self.result

    @cached_property
    def defaults(self) -> dict[str, Json]:
        """The defaults of the parameters, as a payload would have them, without those that it cannot have."""
        found: dict[str, Json] = {}
        for name, parameter in self._caller.parameters.items():
            if parameter.default is not parameter.empty:
                with suppress(ValueError, TypeError):  # pydantic's errors are among them
                    encoded = Encoder(self._adapted(self._hints.get(name, Any))).encode(parameter.default, 10**6, name)
                    found[name] = from_json(encoded)
        return found

    def check_names(self, names: Iterable[str], option: str) -> None:
        """Raise InvalidArgument if the function has no such parameters."""
        unknown = [] if self._open_ended else [name for name in names if name not in self._caller.parameters]
        if unknown:
            raise InvalidArgument(
                f"{option} names {unknown[0]!r}, which is not an argument of {self._name}{self._caller}"
            )

    @property
    def first(self) -> str | None:
        """The first parameter, without that of the job."""
        return next((name for name in self._caller.parameters if name != self._open_ended), None)

    @property
    def returns(self) -> Any:
        """The annotation of what the function returns."""
        return self._hints.get("return", Any)

    @cached_property
    def result(self) -> TypeAdapter[Any]:
        """The type that the function returns."""
        return self._adapted(self.returns)

    @cached_property
    def result_encoder(self) -> Encoder:
        return Encoder(self.result, as_json=True)

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self._adapter, validated=True)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return get_type_hints(self._function, include_extras=True)
        except (NameError, AttributeError, SyntaxError, TypeError) as error:
            raise InvalidJob(f"the annotations of {self._name} cannot be read: {error}") from None

    @cached_property
    def _caller(self) -> inspect.Signature:
        kept = [value for name, value in self._signature.parameters.items() if name != self.job_parameter]
        return self._signature.replace(parameters=kept, return_annotation=inspect.Signature.empty)

    @cached_property
    def _names(self) -> frozenset[str] | None:
        """The names of all parameters, unless there is a **parameter."""
        return None if self._open_ended else frozenset(self._caller.parameters)

    @cached_property
    def _open_ended(self) -> str | None:
        """The **parameter, if there is one."""
        return next((p.name for p in self._caller.parameters.values() if p.kind == p.VAR_KEYWORD), None)

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        # A TypedDict, because the fields of a model must not be called json, copy or schema.
        fields: dict[str, Any] = {}
        for name, parameter in self._caller.parameters.items():
            if name != self._open_ended:
                hint = self._hints.get(name, Any)
                fields[name] = hint if parameter.default is parameter.empty else NotRequired[hint]
        shape: Any = _typed_dict(f"{self._function.__name__}_arguments", fields)
        shape.__module__ = self._function.__module__ if self._function.__module__ in sys.modules else __name__
        shape.__pydantic_config__ = ConfigDict(extra="allow" if self._open_ended else "forbid", **_EXACT)
        return self._adapted(shape)

    @cached_property
    def _others(self) -> TypeAdapter[Any] | None:
        """The type of the values of the **parameter, if it is annotated."""
        hint = self._hints.get(self._open_ended, Any) if self._open_ended else Any
        return None if hint is Any else self._adapted(dict[str, hint])  # type: ignore[valid-type]

    def _takes(self, name: str) -> Any:
        """The annotation of a parameter, by its name."""
        known = name if name in self._caller.parameters else self._open_ended
        return self._hints.get(known, Any) if known else Any

    def _explained(self, error: ValidationError) -> InvalidPayload:
        path, problem = first_problem(error)
        return InvalidPayload(f"{self._name}{path}", problem, self._shown)

    def _misnamed(self, given: Iterable[str]) -> InvalidPayload | None:
        """What a call with arguments of these names lacks, and has too much."""
        names = list(given)
        if (job := self.job_parameter) in names:
            return InvalidPayload(self._name, f"{job} is the job, which the worker passes", "leave it out")
        parameters = self._caller.parameters.values()
        required = [each.name for each in parameters if each.default is each.empty and each.kind != each.VAR_KEYWORD]
        missing = [name for name in required if name not in names]
        unexpected = [] if self._open_ended else [str(name) for name in names if name not in self._caller.parameters]
        problems = [
            f"{what}: {', '.join(found)}" for what, found in (("missing", missing), ("unexpected", unexpected)) if found
        ]
        return InvalidPayload(self._name, "; ".join(problems), self._shown) if problems else None

    @property
    def _shown(self) -> str:
        job = self.job_parameter
        return f"it takes {self._caller}" + ("" if job is None else f" (the worker passes {job})")

    def _unnamed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in given.items() if name not in self._caller.parameters}

    def _adapted(self, shape: Any) -> TypeAdapter[Any]:
        try:
            adapter = _adapter(shape)
        except PydanticUserError as error:
            raise InvalidJob(
                f"{self._name} has an annotation that cannot be a payload: {error.message.splitlines()[0]}"
            ) from None
        if not adapter.pydantic_complete:
            raise InvalidJob(f"the annotations of {self._name} cannot be read: they name a type that is not defined")
        return adapter


def _adapter(shape: Any) -> TypeAdapter[Any]:
    # By an alias: a TypedDict or a model cannot be given a configuration from outside otherwise.
    alias: Any = TypeAliasType("shape", shape)
    return TypeAdapter(alias, config=_EXACT)


def adapter_of(annotation: Any) -> TypeAdapter[Any] | None:
    """What reads a result with this annotation; None if it says nothing."""
    if annotation is Any:
        return None
    try:
        return _known_adapter(annotation)
    except TypeError:  # it cannot be hashed
        return _adapter(annotation)


_known_adapter = lru_cache(_adapter)


# Aliased, because type checkers require the fields of a TypedDict to be literal.
_typed_dict: Any = TypedDict


def _is_job(hint: object) -> bool:
    if get_origin(hint) is Annotated:
        return _is_job(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return any(_is_job(part) for part in get_args(hint) if part is not NoneType)
    return isinstance(hint, type) and issubclass(hint, Job)


def _shown(annotation: Any) -> str:
    return inspect.formatannotation(annotation)


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", repr(function))).rsplit("<locals>.", 1)[-1]
