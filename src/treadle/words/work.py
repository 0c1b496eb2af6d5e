"""What can be enqueued as one part of something larger: a call of a job function, a chain, a group or a workflow."""

from typing import Generic, TypeVar

Result = TypeVar("Result", covariant=True)


class Work(Generic[Result]):
    """A call, chain, group or workflow that is not enqueued yet, with the type of its result."""
