"""Results of steps: how they are stored as JSON, and how they are read back by later attempts."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, get_type_hints

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from treadle.attempt.round_trip import Encoder, explained
from treadle.words.errors import StepsChanged

ADVICE = (
    "every attempt of a job has to run the same steps in the same order: restore the old code, "
    "or cancel the job and enqueue a new one"
)


class StepResult:
    """The return value of a step. The first attempt, too, gets `value`: what later attempts will read back."""

    def __init__(self, function: Callable[..., Any], returned: Any, limit: int, name: str) -> None:
        self.text = None
        if returned is not None:
            self.text = Encoder(_adapter(function)).encode(returned, limit, f"the result of step {name}")
        self.value = decode_result(function, self.text, name)


def decode_result(function: Callable[..., Any], text: str | None, name: str) -> Any:
    """The stored result of a step, by the return annotation of its function."""
    if text is None:
        return None
    try:
        return _adapter(function).validate_json(text)
    except ValidationError as error:
        raise StepsChanged(
            f"step {name!r} returned a value in an earlier attempt that does not fit its return annotation now: "
            f"{explained(error)}; {ADVICE}"
        ) from None


def _adapter(function: Callable[..., Any]) -> TypeAdapter[Any]:
    try:
        return _cached_adapter(function)
    except TypeError:  # the function cannot be hashed
        return _cached_adapter.__wrapped__(function)


@lru_cache(512)
def _cached_adapter(function: Callable[..., Any]) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(get_type_hints(function).get("return", Any))
    except (TypeError, NameError, AttributeError, PydanticUserError):  # a partial, or a type that is not JSON
        return TypeAdapter(Any)
