"""Chains and groups: the shapes that most workflows have."""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar, overload

from treadle.db.database import Source
from treadle.jobs.function import Call
from treadle.jobs.outputs import GroupOutput
from treadle.jobs.workflows.handles import WorkflowHandle
from treadle.jobs.workflows.steps import Step
from treadle.jobs.workflows.workflow import Workflow
from treadle.words.errors import InvalidArgument
from treadle.words.work import Work

R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


class Chain(Work[R], Generic[R]):
    """Calls that run one after the other: see chain()."""

    def __init__(self, parts: Sequence[Work[Any]]) -> None:
        self.parts = parts

    def enqueue(self, name: str = "chain", *, connection: Source | None = None) -> WorkflowHandle[R]:
        return self.workflow(name).enqueue(connection=connection)

    async def aenqueue(self, name: str = "chain", *, connection: Source | None = None) -> WorkflowHandle[R]:
        return await self.workflow(name).aenqueue(connection=connection)

    def workflow(self, name: str = "chain") -> Workflow[R]:
        """The same as a workflow."""
        workflow: Workflow[R] = Workflow(name)
        _return(workflow, _add(workflow, self, None))
        return workflow


class Group(Chain[list[R]], Generic[R]):
    """Calls that run at the same time: see group()."""

    def then(self, call: Work[A]) -> Chain[A]:
        """When all of them have completed, run this: the list of their results is its first argument, unless that is
        given or it has none."""
        return Chain([self, _checked([call], "chain")[0]])


# The result of the last is that of the whole.
@overload
def chain(last: Work[R], /) -> Chain[R]: ...
@overload
def chain(one: Work[Any], last: Work[R], /) -> Chain[R]: ...
@overload
def chain(one: Work[Any], two: Work[Any], last: Work[R], /) -> Chain[R]: ...
@overload
def chain(one: Work[Any], two: Work[Any], three: Work[Any], last: Work[R], /) -> Chain[R]: ...
@overload
def chain(one: Work[Any], two: Work[Any], three: Work[Any], four: Work[Any], last: Work[R], /) -> Chain[R]: ...
@overload
def chain(*parts: Work[Any]) -> Chain[Any]: ...
def chain(*parts: Work[Any]) -> Chain[Any]:
    """Run these one after the other. The result of each is the first argument of the next, unless that is given or it
    has none. The result of the whole is that of the last."""
    if not parts:
        raise InvalidArgument("a chain needs at least one call")
    return Chain(_checked(parts, "chain"))


@overload
def group(one: Work[A], two: Work[B], /) -> Group[A | B]: ...
@overload
def group(one: Work[A], two: Work[B], three: Work[C], /) -> Group[A | B | C]: ...
@overload
def group(one: Work[A], two: Work[B], three: Work[C], four: Work[D], /) -> Group[A | B | C | D]: ...
@overload
def group(*parts: Work[R]) -> Group[R]: ...
def group(*parts: Work[Any]) -> Group[Any]:
    """Run these at the same time. The result is the list of their results, in this order; of an empty group, an empty
    list."""
    return Group(_checked(parts, "group"))


def _checked(parts: Sequence[Work[Any]], shape: str) -> Sequence[Work[Any]]:
    for part in parts:
        if not isinstance(part, Work):
            raise InvalidArgument(f"a {shape} consists of calls, such as pay.call(order=7), and shapes, got {part!r}")
    return parts


def _return(workflow: Workflow[Any], end: Step[Any] | list[Step[Any]]) -> None:
    """The result of the workflow is that of its end, or, if it ends with a group, the list of theirs."""
    workflow.returns(end)
    workflow.grows = isinstance(end, list)


def _add(
    workflow: Workflow[Any], part: Work[Any], before: Step[Any] | list[Step[Any]] | None, as_one: bool = False
) -> Step[Any] | list[Step[Any]]:
    """Add a part after these, and return its end, or its ends. As one: in a group, a part that ends with a group is a
    workflow of its own, because its result is one element."""
    if isinstance(part, Group):
        if not part.parts:
            return workflow.add_empty_group(before)
        if as_one:
            inner: Workflow[Any] = Workflow("group")
            _return(inner, _add(inner, part, before))
            return workflow.add(inner, after=before)
        ends = [_add(workflow, each, before, as_one=True) for each in part.parts]
        return [end for end in ends if isinstance(end, Step)]
    if isinstance(part, Chain):
        *others, last = part.parts
        for each in others:
            before = _add(workflow, each, before)
        return _add(workflow, last, before, as_one)
    if isinstance(part, Call) and before is not None:
        part = part.with_first(
            GroupOutput(each.output for each in before) if isinstance(before, list) else before.output
        )
    return workflow.add(part, after=before)
