"""Workflows: any graph of steps, as a value that can be enqueued."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast, get_args, get_origin

import typing_extensions  # for defaults of type variables

from treadle.db.database import Database, Source
from treadle.db.queries import workflows as queries
from treadle.db.queries.workflows import EnqueuedWorkflow
from treadle.db.query import Query
from treadle.jobs.backend import Backend
from treadle.jobs.function import Call
from treadle.jobs.middleware import EnqueueCall
from treadle.jobs.outputs import Output, fits, list_of
from treadle.jobs.workflows.blocks import Blocks
from treadle.jobs.workflows.handles import WorkflowHandle
from treadle.jobs.workflows.steps import (
    Before,
    Edge,
    EmptyGroup,
    ForEach,
    Signal,
    Step,
    StepGraph,
    edges_of,
    sources_of,
)
from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument
from treadle.words.naming import int_within, text_within
from treadle.words.work import Work

R = TypeVar("R")
W = typing_extensions.TypeVar("W", default=Any)  # the result of a workflow

CALLBACKS = {"on_complete": {"ok_to_fail": True}, "on_success": {}, "on_failure": {"if_failed": True}}
"""The callbacks of a workflow, and how they wait for it."""


class Workflow(StepGraph, Work[W], Generic[W]):
    """Jobs that belong together.

        order = Workflow("order 7")
        paid = order.add(pay.call(order=7))
        packed = order.add(pack.call(order=7))
        order.add(ship.call(receipt=paid.output), after=[packed])
        handle = order.enqueue()

    Nothing is enqueued before enqueue(). If it has not ended within `deadline`, it is cancelled. When it has ended,
    `on_complete` is enqueued; if all has completed, `on_success`, else `on_failure`.

    `order: Workflow[Receipt] = Workflow("order 7")` tells type checkers what it returns.
    """

    def __init__(
        self,
        name: str = "workflow",
        *,
        deadline: Duration | None = None,
        on_complete: Call[Any] | None = None,
        on_success: Call[Any] | None = None,
        on_failure: Call[Any] | None = None,
    ) -> None:
        super().__init__(text_within(name, 200, "name"))
        self.deadline = deadline_seconds(deadline)
        self.callbacks = checked_callbacks(on_complete=on_complete, on_success=on_success, on_failure=on_failure)
        self._returns: Any = Any

    def add(
        self,
        work: Work[R] | Signal[R],
        *,
        name: str | None = None,
        after: Before | Iterable[Before] | None = (),
        effort: int = 1,
        undo: Call[Any] | None = None,
    ) -> Step[R]:
        """Add a step: a call, another workflow, chain or group, or wait_for_signal().

        It waits for the steps in `after`, which are given as they are or by name, and for those whose outputs are among
        its arguments. `ok_to_fail(step)` may also fail; after `if_failed(step)`, it runs only if that does. Jobs that
        are no part of the workflow can be given too.

        `effort` is how much of the progress of the workflow it is. If the workflow fails after this step has completed,
        `undo` is called, in the reverse order of completion; the result of the step is its first argument, unless that
        is given or it has none.
        """
        part: Any = work
        if isinstance(work, Work) and not isinstance(work, Workflow | Call):
            part = cast(Any, work).workflow(name or "workflow")  # a chain or a group
        if isinstance(part, Workflow):
            part = self._nested(part)
            returns = part.returned
        elif isinstance(part, Call):
            returns = part.function.arguments.returns
        elif isinstance(part, Signal):
            returns = part.returns
        else:
            raise InvalidArgument(f"a step must be a call, such as pay.call(order=7), got {work!r}")
        step: Step[R] = self._step(part, name, returns, edges_of(after), effort)
        if undo is not None:
            if not isinstance(undo, Call) or not isinstance(part, Call):
                raise InvalidArgument(f"undo must be a call, for a step that is a call, got {undo!r}")
            step.undo = undo.with_first(step.output)
        if isinstance(part, Workflow):
            part.as_step = step
        return step

    def map(
        self,
        call: Call[R],
        over: Any,
        *,
        name: str | None = None,
        after: Before | Iterable[Before] | None = (),
        effort: int = 1,
    ) -> Step[list[R]]:
        """Add one job for each element of a list that is known when the workflow runs: the result of the step `over`.
        The element is the first argument of the call, which must be left out. The result is the list of results."""
        if not isinstance(call, Call):
            raise InvalidArgument(f"map() needs a call, such as resize.call(size=3), got {call!r}")
        source = over.output if isinstance(over, Step) else over
        if not isinstance(source, Output):
            raise InvalidArgument(f"over must be a step that returns a list, or its output, got {over!r}")
        if not fits(source.annotation, list[Any]):
            raise InvalidArgument(f"over must be a list, but {source} is {source.annotation!r}")
        inside = get_args(source.annotation)
        is_list = get_origin(source.annotation) in (list, tuple, set, frozenset, Sequence)
        element = Output(source.source, inside[0] if is_list and inside else Any)
        given = call.with_first(element)
        if given is call:
            raise InvalidArgument(f"map() gives each element to the first argument of {call}, which must be left out")
        edges = [*edges_of(after), Edge(source.source, arguments=["over"])]
        work = ForEach(given, str(given.function.arguments.first), element)
        result = call.function.arguments.returns
        return self._step(work, name, list[result], edges, effort)  # type: ignore[valid-type]

    def add_empty_group(self, after: Before | Iterable[Before] | None) -> Step[list[Any]]:
        return self._step(EmptyGroup(), None, list[Any], edges_of(after), 1)

    def returns(self, output: Step[W] | Sequence[Step[Any]]) -> None:
        """The result of the workflow is that of this step, or the list of those of these."""
        steps = [output] if isinstance(output, Step) else output
        if not isinstance(steps, Sequence) or not all(isinstance(each, Step) for each in steps):
            raise InvalidArgument(f"returns() needs a step of {self.name}, or a list of them, got {output!r}")
        if strange := [each for each in steps if each.workflow is not self]:
            raise InvalidArgument(f"{strange[0]} is a step of another workflow")
        if isinstance(output, Step):
            self.positions, self._returns = {output: -1}, output.returns
        else:
            self.positions = {step: nth for nth, step in enumerate(steps)}
            self._returns = list_of([step.returns for step in steps])

    def enqueue(self, *, connection: Source | None = None) -> WorkflowHandle[W]:
        """Enqueue all jobs in one transaction: that of `connection`, if it is given."""
        blocks, backend = self._blocks()
        with backend.middlewares.around_enqueue(queries.WORKFLOW) as call:
            statements = self._queries(blocks, call)
            enqueued = noted(_database(backend, connection).run_together(statements), call)
        return self._handle(enqueued, blocks, backend)

    async def aenqueue(self, *, connection: Source | None = None) -> WorkflowHandle[W]:
        blocks, backend = self._blocks()
        with backend.middlewares.around_enqueue(queries.WORKFLOW) as call:
            statements = self._queries(blocks, call)
            enqueued = noted(await _database(backend, connection).arun_together(statements), call)
        return self._handle(enqueued, blocks, backend)

    @property
    def returned(self) -> Any:
        """The annotation of its result."""
        return self._returns

    # Building

    def _step(self, work: Any, name: str | None, returns: Any, after: list[Edge], effort: int) -> Step[Any]:
        if name is not None:
            text_within(name, 100, "name of a step")
            if name in self.names:
                raise InvalidArgument(f"{self.name} has two steps called {name!r}")
        if isinstance(work, Signal):
            if work.name in self.signals:
                raise InvalidArgument(f"{self.name} has two steps that wait for the signal {work.name!r}")
            self.signals.add(work.name)
        step: Step[Any] = Step(self, work, name, returns, after, int_within(effort, 1, 1_000_000, "effort"))
        self.steps.append(step)
        if name is not None:
            self.names[name] = step
        return step

    def _nested(self, inner: "Workflow[Any]") -> "Workflow[Any]":
        if inner.as_step is not None:
            raise InvalidArgument(f"{inner.name} is part of a workflow already: build another one")
        if inner.callbacks or inner.deadline is not None:
            raise InvalidArgument(f"{inner.name} is part of a workflow: only the whole has callbacks and a deadline")
        outer: StepGraph | None = self
        while outer is not None:
            if outer is inner:
                raise InvalidArgument(f"{inner.name} cannot be a part of itself")
            outer = outer.as_step.workflow if outer.as_step else None
        if not inner.steps:
            raise InvalidArgument(f"{inner.name} has no steps")
        return inner

    def _all_steps(self) -> Iterator[Step[Any]]:
        for step in self.steps:
            if isinstance(step.work, Workflow):
                yield from step.work._all_steps()
            yield step

    def _in_order(self) -> list[Step[Any]]:
        """All steps, also of nested workflows, each after those that it waits for."""
        steps = list(self._all_steps())
        known = set(steps)
        ordered: list[Step[Any]] = []
        done: set[Step[Any]] = set()
        for first in steps:
            path: dict[Step[Any], list[Step[Any]]] = {first: self._before(first, known)}
            while path:
                step = next(reversed(path))
                if step in done:
                    path.popitem()
                elif not path[step]:
                    done.add(step)
                    ordered.append(step)
                    path.popitem()
                elif (following := path[step].pop()) in path:
                    circle = list(path)
                    names = [str(each.name or each.number) for each in circle[circle.index(following) :]]
                    raise InvalidArgument(
                        f"the steps of {self.name} wait for each other: {' after '.join([*names, names[0]])}"
                    )
                else:
                    path[following] = self._before(following, known)
        return ordered

    def _before(self, step: Step[Any], known: set[Step[Any]]) -> list[Step[Any]]:
        if isinstance(step.work, Workflow):
            found = step.work.steps.copy()
        else:
            found = [edge.source for edge in edges_for(step) if isinstance(edge.source, Step)]
        if isinstance(step.work, Call):
            found += sources_of(step.work)
        for each in found:
            if each not in known:
                raise InvalidArgument(f"{each} is a step of another workflow")
        return found

    # Enqueueing

    def _blocks(self) -> tuple[Blocks, Backend]:
        if self.as_step is not None:
            raise InvalidArgument(f"{self.name} is part of {self.as_step.workflow.name}: enqueue that")
        if not self.steps:
            raise InvalidArgument(f"{self.name} has no steps")
        blocks = Blocks()
        for step in self._in_order():
            blocks.add(step, edges_for(step))
        blocks.add_undo(self.name)
        for name, call in self.callbacks.items():
            blocks.add_callback(call, CALLBACKS[name])
        if blocks.backend is None:
            raise InvalidArgument(f"{self.name} has no call, such as pay.call(order=7)")
        return blocks, blocks.backend

    def _queries(self, blocks: Blocks, call: EnqueueCall) -> list[Query[Any]]:
        options: dict[str, Any] = {"returns": bool(self.positions)}
        if self.deadline is not None:
            options["deadline"] = self.deadline
        return blocks.queries(self.name, options, call.headers)

    def _replacement(self) -> str:
        if self.callbacks or self.deadline is not None:
            raise InvalidArgument(f"{self.name} replaces a job: it cannot have callbacks or a deadline")
        blocks, backend = self._blocks()
        with backend.middlewares.around_enqueue(queries.WORKFLOW) as call:
            blocks.add_headers(call.headers)
        nths, stored = [nth for nth, _ in blocks.uses], [str(each) for _, each in blocks.uses]
        return json.dumps({"blocks": blocks.records, "nths": nths, "stored": stored})

    def _handle(self, enqueued: EnqueuedWorkflow, blocks: Blocks, backend: Backend) -> WorkflowHandle[W]:
        named = {name: blocks.handle(backend, step, enqueued.jobs) for name, step in self.names.items()}
        return WorkflowHandle(backend, enqueued.id, named, returns=self._returns)


def replacement(work: Work[Any]) -> str:
    """What replace_job() needs to put this in the place of a job, as JSON."""
    whole: Any = work if isinstance(work, Workflow) else None
    if isinstance(work, Call):
        whole = Workflow()
        whole.returns(whole.add(work))
    elif whole is None:
        whole = cast(Any, work).workflow()
    return cast(str, whole._replacement())


def noted(results: Sequence[Any], call: EnqueueCall) -> EnqueuedWorkflow:
    """What was enqueued, which the middlewares see, too."""
    enqueued: EnqueuedWorkflow = results[-1]
    call.ids = [*enqueued.jobs, enqueued.id]
    return enqueued


def edges_for(step: Step[Any]) -> list[Edge]:
    """What a step waits for, by `after`. Those of a nested workflow also wait for what that waits for, unless another
    of its steps has to complete first, which does."""
    edges = _own_edges(step)
    whole = step.workflow.as_step
    needed = [edge.source for edge in edges if not edge.ok_to_fail and not edge.if_failed]
    needed += sources_of(step.work) if isinstance(step.work, Call) else []
    if whole is not None and not any(isinstance(each, Step) and each.workflow is step.workflow for each in needed):
        edges += edges_for(whole)
    return edges


def _own_edges(step: Step[Any]) -> list[Edge]:
    for edge in step.after:
        if isinstance(edge.source, str):
            edge.source = step.workflow.named(edge.source, step)
    return list(step.after)


def deadline_seconds(deadline: Duration | None) -> float | None:
    if deadline is None:
        return None
    seconds = duration(deadline, "deadline").total_seconds()
    if seconds <= 0:
        raise InvalidArgument(f"deadline must be longer than 0, got {deadline!r}")
    return seconds


def checked_callbacks(**given: Call[Any] | None) -> dict[str, Call[Any]]:
    for name, call in given.items():
        if call is not None and not isinstance(call, Call):
            raise InvalidArgument(f"{name} must be a call, such as report.call(order=7), got {call!r}")
    return {name: call for name, call in given.items() if call is not None}


def _database(backend: Backend, connection: Source | None) -> Database:
    return backend.database if connection is None else Database(connection, backend.database.schema)
