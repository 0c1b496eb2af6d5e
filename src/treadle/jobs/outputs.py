"""Results of other jobs as arguments: `ship.enqueue(receipt=pay.output)`."""

import dataclasses
import enum
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, is_typeddict
from uuid import UUID

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema
from pydantic_core.core_schema import any_schema, no_info_after_validator_function, tuple_schema

from treadle.words.after import After
from treadle.words.errors import InvalidArgument

_TEXTS = (str, bytes, UUID, datetime, date, time, timedelta, Decimal)
ANY = frozenset({"any"})


class Output:
    """Stands for the result of a job that may not have ended. `output` returns it as if it were the result."""

    __slots__ = ("annotation", "source")

    def __init__(self, source: Any, annotation: Any) -> None:
        self.source = source
        """The id of the job; or a Step, if it is not enqueued yet."""
        self.annotation = annotation

    def __repr__(self) -> str:
        return f"<the result of {self.source}>"


class GroupOutput(list[Any]):
    """The outputs of a group, as an argument. Jobs that its jobs add while they run come after these."""


@dataclass(frozen=True)
class ByPosition:
    """Makes an annotation one of a list whose first elements have these types. The types of others are not known."""

    kinds: tuple[Any, ...]

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        items = [*map(handler.generate_schema, self.kinds), any_schema()]
        return no_info_after_validator_function(list, tuple_schema(items, variadic_item_index=len(self.kinds)))


def list_of(kinds: Sequence[Any]) -> Any:
    """The annotation of a list of results."""
    if kinds and all(kind == kinds[0] for kind in kinds):
        return list[kinds[0]]  # type: ignore[valid-type]
    return Annotated[list[Any], ByPosition(tuple(kinds))]


def outputs_of(value: Any) -> list[Output]:
    """The outputs that an argument consists of: one, or a list of them."""
    if isinstance(value, Output):
        return [value]
    if isinstance(value, list | tuple) and value and all(isinstance(each, Output) for each in value):
        return list(value)
    return []


def after_of(name: str, value: Any) -> list[After]:
    """What the job waits for, because of this argument."""
    found = []
    for output, position in positions_of(value):
        if not isinstance(output.source, UUID):
            raise InvalidArgument(f"{name} is {output}, which is not enqueued yet: add this call to the workflow")
        found.append(After(output.source, arguments=(name,), nth=position))
    return found


def positions_of(value: Any) -> list[tuple[Output, int | None]]:
    """The outputs that an argument consists of, each with its position in a list."""
    if isinstance(value, Output):
        return [(value, None)]
    return [(each, nth) for nth, each in enumerate(outputs_of(value))]


def annotation_of(value: Any) -> Any:
    """What an argument that consists of outputs will be."""
    if isinstance(value, Output):
        return value.annotation
    return list_of([each.annotation for each in outputs_of(value)])


def fits(given: Any, wanted: Any) -> bool:
    """Whether a value of one annotation can be an argument of the other, as JSON. In doubt it can: the worker checks it
    again when the job runs."""
    given, wanted = _plain(given), _plain(wanted)
    if given is wanted or Any in (given, wanted):
        return True
    if get_origin(given) in (Union, UnionType):
        return all(fits(part, wanted) for part in get_args(given))
    if get_origin(wanted) in (Union, UnionType):
        return any(fits(given, part) for part in get_args(wanted))
    if not (kinds := _kinds(given)) & _kinds(wanted) and ANY not in (kinds, _kinds(wanted)):
        return False
    if _is_record(given) and _is_record(wanted):
        return issubclass(given, wanted)
    inside, outside = get_args(given), get_args(wanted)
    if kinds == {"list"} and len(inside) == len(outside) == 1:
        return fits(inside[0], outside[0])
    if kinds == {"object"} and len(inside) == len(outside) == 2:
        return fits(inside[1], outside[1])
    return True


def _plain(annotation: Any) -> Any:
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    return NoneType if annotation is None else annotation


def _kinds(annotation: Any) -> frozenset[str]:
    """Which kinds of JSON values its values become."""
    origin = get_origin(annotation)
    if origin is Literal:
        return frozenset().union(*(_kinds(type(each)) for each in get_args(annotation)))
    kind = origin or annotation
    if not isinstance(kind, type):
        return ANY
    if kind is NoneType:
        return frozenset({"null"})
    if issubclass(kind, enum.Enum):
        return frozenset().union(*(_kinds(type(each.value)) for each in kind)) or ANY
    if kind is bool:
        return frozenset({"boolean"})
    if issubclass(kind, int):
        return frozenset({"number"})
    if issubclass(kind, float):
        return frozenset({"number"})
    if issubclass(kind, _TEXTS):
        return frozenset({"text", "number"}) if kind in (Decimal, timedelta) else frozenset({"text"})
    if _is_record(kind) or is_typeddict(kind) or issubclass(kind, Mapping):
        return frozenset({"object"})
    if issubclass(kind, Sequence | Set):
        return frozenset({"list"})
    return ANY


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and (issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind))
