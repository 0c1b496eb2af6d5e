"""What can be enqueued as one part of something larger: a call of a job function, a chain, a group or a workflow."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Result = TypeVar("Result", covariant=True)


class Work(Generic[Result]):
    """A call, chain, group or workflow that is not enqueued yet, with the type of its result."""


@dataclass(frozen=True)
class Replacement:
    """What a handler returns instead of a result: the result will be that of this work."""

    work: Work[Any]
