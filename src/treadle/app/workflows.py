"""Workflows: jobs that belong together, built as a value, checked, and enqueued in one transaction."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar, cast
from uuid import UUID

from treadle.app.backend import Backend
from treadle.app.function import Call
from treadle.app.handle import Handle
from treadle.app.outputs import Output, outputs_of, places_of
from treadle.db.database import Database, Source
from treadle.db.queries import stored as stored_queries
from treadle.db.queries import workflows as queries
from treadle.db.queries.workflows import EnqueuedWorkflow, Member
from treadle.db.query import Query
from treadle.words.after import After, HasId, OkToFail, is_id, waits_for
from treadle.words.errors import InvalidArgument
from treadle.words.naming import text_within
from treadle.words.stored import Noted

R = TypeVar("R")

Part: TypeAlias = "Call[Any] | Chain | Group"


class Step(Generic[R]):
    """A job of a workflow that is not enqueued yet."""

    def __init__(self, workflow: "Workflow", number: int, call: Call[R], name: str | None) -> None:
        self.workflow = workflow
        self.number = number
        self.call = call
        self.name = name
        self.after: list[_Edge] = []

    @property
    def output(self) -> R:
        """The result, as an argument of another step."""
        return cast(R, Output(self, self.call.function.arguments.returns))

    def __repr__(self) -> str:
        return f"<step {self.name or self.number} of {self.workflow.name}>"


@dataclass
class _Edge:
    source: Step[Any] | str | UUID
    ok_to_fail: bool = False
    arguments: list[str] = field(default_factory=list)
    place: int | None = None


Before: TypeAlias = Step[Any] | str | HasId | UUID | After | OkToFail


class Workflow:
    """Jobs that belong together.

        order = Workflow("order 7")
        paid = order.add(pay.call(order=7))
        packed = order.add(pack.call(order=7))
        order.add(ship.call(receipt=paid.output), after=[packed])
        handle = order.enqueue()

    Nothing is enqueued before enqueue().
    """

    def __init__(self, name: str = "workflow") -> None:
        self.name = text_within(name, 200, "name")
        self._steps: list[Step[Any]] = []
        self._names: dict[str, Step[Any]] = {}
        self._places: dict[Step[Any], int] = {}  # of the results in that of the workflow; -1: it is this one

    def add(self, call: Call[R], *, name: str | None = None, after: Before | Iterable[Before] = ()) -> Step[R]:
        """Add a job. It waits for the steps in `after`, which are given as they are or by name, and for those whose
        outputs are among its arguments. `ok_to_fail(step)` may also fail. Jobs that are no part of it can be given too.
        """
        if not isinstance(call, Call):
            raise InvalidArgument(f"a step must be a call, such as pay.call(order=7), got {call!r}")
        if name is not None:
            text_within(name, 100, "name of a step")
            if name in self._names:
                raise InvalidArgument(f"{self.name} has two steps called {name!r}")
        step = Step(self, len(self._steps), call, name)
        for value in (*call.args, *call.kwargs.values()):
            self._check_outputs(value)
        given = [after] if isinstance(after, str | UUID | After | OkToFail | Step) or hasattr(after, "id") else after
        step.after = [self._edge(each) for each in cast(Iterable[Before], given)]
        self._steps.append(step)
        if name is not None:
            self._names[name] = step
        return step

    def returns(self, output: "Step[Any] | Sequence[Step[Any]]") -> None:
        """The result of the workflow is that of this step, or the list of those of these."""
        self._places = {output: -1} if isinstance(output, Step) else {step: nth for nth, step in enumerate(output)}

    def enqueue(self, *, connection: Source | None = None) -> "WorkflowHandle":
        """Enqueue all jobs in one transaction: that of `connection`, if it is given."""
        statements, database = self._queries(connection)
        return self._handle(database.run_together(statements)[-1])

    async def aenqueue(self, *, connection: Source | None = None) -> "WorkflowHandle":
        statements, database = self._queries(connection)
        return self._handle((await database.arun_together(statements))[-1])

    # Building

    def _check_outputs(self, value: Any) -> None:
        for output in outputs_of(value):
            if isinstance(output.source, Step) and output.source.workflow is not self:
                raise InvalidArgument(f"{output.source} is a step of another workflow")

    def _edge(self, given: Any) -> _Edge:
        if isinstance(given, OkToFail):
            return _Edge(self._edge(given.step).source, ok_to_fail=True)
        if isinstance(given, Step):
            if given.workflow is not self:
                raise InvalidArgument(f"{given} is a step of another workflow")
            return _Edge(given)
        if isinstance(given, str) and not is_id(given):
            return _Edge(given)  # the name of a step, which may be added later
        (found,) = waits_for(given)
        return _Edge(found.id, found.ok_to_fail)

    def _named(self, name: str, by: Step[Any]) -> Step[Any]:
        if name not in self._names:
            known = ", ".join(self._names) or "none has a name"
            raise InvalidArgument(f"{by} waits for {name!r}, but there is no such step; there are: {known}")
        return self._names[name]

    def _in_order(self) -> list[Step[Any]]:
        """The steps, each after those that it waits for."""
        ordered: list[Step[Any]] = []
        done: set[int] = set()
        for first in self._steps:
            path: list[tuple[Step[Any], list[Step[Any]]]] = [(first, self._before(first))]
            while path:
                step, left = path[-1]
                if step.number in done:
                    path.pop()
                elif not left:
                    done.add(step.number)
                    ordered.append(step)
                    path.pop()
                elif (following := left.pop()) in [each for each, _ in path]:
                    circle = [each for each, _ in path]
                    names = [str(each.name or each.number) for each in circle[circle.index(following) :]]
                    raise InvalidArgument(
                        f"the steps of {self.name} wait for each other: {' after '.join([*names, names[0]])}"
                    )
                else:
                    path.append((following, self._before(following)))
        return ordered

    def _before(self, step: Step[Any]) -> list[Step[Any]]:
        found = []
        for edge in step.after:
            if isinstance(edge.source, str):
                edge.source = self._named(edge.source, step)
            if isinstance(edge.source, Step):
                found.append(edge.source)
        for value in (*step.call.args, *step.call.kwargs.values()):
            found += [each.source for each in outputs_of(value) if isinstance(each.source, Step)]
        return found

    def _queries(self, connection: Source | None) -> tuple[list[Query[Any]], Database]:
        if not self._steps:
            raise InvalidArgument(f"{self.name} has no steps")
        steps = self._in_order()
        numbers = {step: nth for nth, step in enumerate(steps)}
        blocks: list[dict[str, Any]] = []
        uses: list[tuple[int, UUID]] = []
        for nth, step in enumerate(steps):
            with Noted() as used:
                block = self._block(step, numbers)
            uses += [(nth, each) for each in used or ()]
            if blocks and _alike(blocks[-1], block):
                for name in ("data", "steps", "outputs", "partitions"):
                    if blocks[-1].get(name) is not None:
                        blocks[-1][name] += block[name]
            else:
                blocks.append(block)
        for block in blocks:
            if all(place is None for place in block["outputs"]):
                block["outputs"] = None
        backend = steps[0].call.function.backend
        database = backend.database
        if connection is not None:
            database = Database(connection, database.schema)
        self._order = steps
        found: list[Query[Any]] = [queries.enqueue_workflow(self.name, blocks, uses)]
        if uses:
            found.insert(0, stored_queries.lock({stored_id for _, stored_id in uses}))
        return found, database

    def _block(self, step: Step[Any], numbers: Mapping[Step[Any], int]) -> dict[str, Any]:
        prepared = step.call.prepared()
        edges: dict[Any, _Edge] = {}
        for edge in step.after:
            edges[edge.source] = _Edge(edge.source, edge.ok_to_fail)
        for name, value in prepared.outputs.items():
            for output, place in places_of(value):
                known = edges.setdefault(output.source, _Edge(output.source))
                if known.arguments and known.place != place:
                    raise InvalidArgument(f"{step}: a result is used as an argument, and in a list: use it once")
                known.arguments.append(name)
                known.place = place
        after = [_record(edge, numbers) for edge in edges.values()]
        return {
            "job_type": step.call.function.name,
            "data": [prepared.data],
            "steps": [step.name],
            "after": after or None,
            "outputs": [self._places.get(step)],
            **prepared.options,
        }

    def _handle(self, enqueued: EnqueuedWorkflow) -> "WorkflowHandle":
        steps = {}
        for step, job_id in zip(self._order, enqueued.jobs, strict=True):
            if step.name is not None:
                steps[step.name] = step.call.function.handle(job_id, is_new=True)
        return WorkflowHandle(self._order[0].call.function.backend, enqueued.id, steps)


class WorkflowHandle(Handle[Any]):
    """An enqueued workflow. It is a job that ends when all of its jobs have ended: completed if all of them have
    completed, else failed."""

    def __init__(
        self, backend: Backend, job_id: UUID, steps: Mapping[str, Handle[Any]] | None = None, is_new: bool = True
    ) -> None:
        super().__init__(backend, job_id, is_new=is_new)
        self.steps = dict(steps or {})
        """Handles of the steps that have a name."""

    def jobs(self) -> list[Member]:
        """The jobs, in the order in which they were enqueued, with their status."""
        return self._database.run(queries.find_members(self.id))

    async def ajobs(self) -> list[Member]:
        return await self._database.arun(queries.find_members(self.id))

    def retry(self) -> int:
        """Retry the jobs that failed or were cancelled; the rest goes on. Returns how many."""
        return self._database.run(queries.retry_workflow(self.id))

    async def aretry(self) -> int:
        return await self._database.arun(queries.retry_workflow(self.id))


class Chain:
    """Calls that run one after the other: see chain()."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts

    def enqueue(self, name: str = "chain", *, connection: Source | None = None) -> WorkflowHandle:
        return self._workflow(name).enqueue(connection=connection)

    async def aenqueue(self, name: str = "chain", *, connection: Source | None = None) -> WorkflowHandle:
        return await self._workflow(name).aenqueue(connection=connection)

    def _workflow(self, name: str) -> Workflow:
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


def _record(edge: _Edge, numbers: Mapping[Step[Any], int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(edge.source, Step):
        found["nth"] = numbers[edge.source]
    else:
        found["id"] = str(edge.source)
    if edge.ok_to_fail:
        found["ok_to_fail"] = True
    if edge.arguments:
        found["arguments"] = edge.arguments
    if edge.place is not None:
        found["place"] = edge.place
    return found


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether one statement can enqueue both."""
    same = one.keys() | other.keys()
    return all(one.get(name) == other.get(name) for name in same - {"data", "steps", "outputs", "partitions"})
