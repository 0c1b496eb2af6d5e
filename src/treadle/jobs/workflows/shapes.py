"""Chains and groups: the shapes that most workflows have."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from treadle.db.database import Source
from treadle.jobs.function import Call
from treadle.jobs.workflows.handles import WorkflowHandle
from treadle.jobs.workflows.steps import Step
from treadle.jobs.workflows.workflow import Workflow
from treadle.words.errors import InvalidArgument

Part: TypeAlias = "Call[Any] | Chain | Group"


class Chain:
    """Calls that run one after the other: see chain()."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts

    def enqueue(self, name: str = "chain", *, connection: Source | None = None) -> WorkflowHandle:
        return self.workflow(name).enqueue(connection=connection)

    async def aenqueue(self, name: str = "chain", *, connection: Source | None = None) -> WorkflowHandle:
        return await self.workflow(name).aenqueue(connection=connection)

    def workflow(self, name: str = "chain") -> Workflow:
        """The same as a workflow."""
        workflow = Workflow(name)
        workflow.returns(_add(workflow, self, None))
        return workflow


class Group(Chain):
    """Calls that run at the same time: see group()."""

    def then(self, call: Part) -> Chain:
        """When all of them have completed, run this: the list of their results is its first argument, unless that is
        given or it has none."""
        return Chain([self, call])


def chain(*parts: Part) -> Chain:
    """Run these one after the other. The result of each is the first argument of the next, unless that is given or it
    has none. The result of the whole is that of the last."""
    return Chain(_checked(parts, "chain"))


def group(*parts: Part) -> Group:
    """Run these at the same time. The result is the list of their results."""
    return Group(_checked(parts, "group"))


def _checked(parts: Sequence[Part], shape: str) -> Sequence[Part]:
    if not parts:
        raise InvalidArgument(f"a {shape} needs at least one call")
    for part in parts:
        if not isinstance(part, Call | Chain):
            raise InvalidArgument(f"a {shape} consists of calls, such as pay.call(order=7), and shapes, got {part!r}")
    return parts


def _add(workflow: Workflow, part: Part, before: Step[Any] | list[Step[Any]] | None) -> Step[Any] | list[Step[Any]]:
    """Add a part after these, and return its end, or its ends."""
    if isinstance(part, Group):
        ends: list[Step[Any]] = []
        for each in part.parts:
            end = _add(workflow, each, before)
            ends += end if isinstance(end, list) else [end]
        return ends
    if isinstance(part, Chain):
        first, *others = part.parts
        end = _add(workflow, first, before)
        for each in others:
            end = _add(workflow, each, end)
        return end
    if before is None:
        return workflow.add(part)
    given: Any = [each.output for each in before] if isinstance(before, list) else before.output
    return workflow.add(part.with_first(given), after=before)
