"""Steps: what a workflow consists of before it is enqueued."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar, cast, overload
from uuid import UUID

from treadle.jobs.function import Call
from treadle.jobs.outputs import Output, outputs_of
from treadle.words.after import After, HasId, IfFailed, OkToFail, is_id, waits_for
from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument
from treadle.words.naming import text_within

R = TypeVar("R")


class Signal(Generic[R]):
    """A step that waits for a signal: see wait_for_signal()."""

    def __init__(self, name: str, returns: Any, timeout: float | None) -> None:
        self.name = name
        self.returns = returns
        self.timeout = timeout


@overload
def wait_for_signal(name: str, returns: type[R], *, timeout: Duration | None = None) -> Signal[R]: ...
@overload
def wait_for_signal(name: str, returns: Any = Any, *, timeout: Duration | None = None) -> Signal[Any]: ...
def wait_for_signal(name: str, returns: Any = Any, *, timeout: Duration | None = None) -> Signal[Any]:
    """A step of a workflow that completes when somebody sends this signal: `handle.signal("approved", by="ann")`. It
    occupies no worker. Its result is the value that is sent with it, which `returns` describes. If the signal has not
    come within `timeout`, counted from when everything before the step has ended, the step fails."""
    seconds = None if timeout is None else duration(timeout, "timeout").total_seconds()
    return Signal(text_within(name, 100, "name of a signal"), returns, seconds)


@dataclass(frozen=True)
class ForEach:
    """One job for each element of a list, which is known when the workflow runs: see Workflow.map()."""

    call: Call[Any]
    """With the element as an argument."""
    argument: str
    element: Output


class EmptyGroup:
    """A group without calls, whose result is an empty list as soon as what it waits for has completed."""


class StepGraph:
    """The steps of a workflow."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps: list[Step[Any]] = []
        self.as_step: Step[Any] | None = None  # in the workflow that this one is part of
        self.positions: dict[Step[Any], int] = {}  # of their results in that of the workflow; -1: it is this one
        self.names: dict[str, Step[Any]] = {}
        self.signals: set[str] = set()
        self.grows = False
        """It is a group: the results of jobs that its jobs add are in its own."""

    def named(self, name: str, by: "Step[Any]") -> "Step[Any]":
        if name not in self.names:
            known = ", ".join(self.names) or "none has a name"
            raise InvalidArgument(f"{by} waits for {name!r}, but there is no such step; there are: {known}")
        return self.names[name]


@dataclass
class Edge:
    """What a step waits for."""

    source: "Step[Any] | str | UUID"
    ok_to_fail: bool = False
    if_failed: bool = False
    arguments: list[str] = field(default_factory=list)
    position: int | None = None
    grows: bool = False
    """The source is one of a group, whose results are an argument."""


class Step(Generic[R]):
    """A part of a workflow that is not enqueued yet."""

    def __init__(
        self,
        workflow: StepGraph,
        work: Call[Any] | Signal[Any] | ForEach | EmptyGroup | StepGraph,
        name: str | None,
        returns: Any,
        after: list[Edge],
        effort: int = 1,
        undo: Call[Any] | None = None,
    ) -> None:
        self.workflow = workflow
        self.work = work
        self.name = name
        self.returns = returns
        self.after = after
        self.effort = effort
        self.undo = undo
        self.number = len(workflow.steps)

    @property
    def output(self) -> R:
        """The result, as an argument of another step."""
        return cast(R, Output(self, self.returns))

    def __repr__(self) -> str:
        return f"<step {self.name or self.number} of {self.workflow.name}>"


Before: TypeAlias = Step[Any] | str | HasId | UUID | After | OkToFail | IfFailed


def edges_of(given: Before | Iterable[Before] | None) -> list[Edge]:
    """Check what a step is to wait for."""
    if given is None:
        return []
    if isinstance(given, str | UUID | After | OkToFail | IfFailed | Step) or hasattr(given, "id"):
        return [_edge(given)]
    if not isinstance(given, Iterable):
        raise InvalidArgument(f"after must be a step, a job, or a list of them, got {given!r}")
    return [_edge(each) for each in given]


def sources_of(call: Call[Any]) -> list[Step[Any]]:
    """The steps whose results are arguments."""
    found = []
    for value in (*call.args, *call.kwargs.values()):
        found += [each.source for each in outputs_of(value) if isinstance(each.source, Step)]
    return found


def _edge(given: Any) -> Edge:
    if isinstance(given, OkToFail | IfFailed):
        if isinstance(given.step, OkToFail | IfFailed):
            raise InvalidArgument(f"use either ok_to_fail() or if_failed() for {given.step.step!r}, not both")
        is_handler = isinstance(given, IfFailed)
        return Edge(_edge(given.step).source, ok_to_fail=not is_handler, if_failed=is_handler)
    if isinstance(given, Step):
        return Edge(given)
    if isinstance(given, str) and not is_id(given):
        return Edge(given)  # the name of a step, which may be added later
    if not isinstance(given, str | UUID | After) and not hasattr(given, "id"):
        raise InvalidArgument(f"after must be a step, the name of a step, or a job, got {given!r}")
    (found,) = waits_for(given)
    return Edge(found.id, found.ok_to_fail, found.if_failed)
