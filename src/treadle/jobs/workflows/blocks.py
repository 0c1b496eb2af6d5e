"""What enqueue_workflow() is given: the steps of a workflow, those of one kind together."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from treadle.db.queries import stored as stored_queries
from treadle.db.queries import workflows as workflow_queries
from treadle.db.query import Query
from treadle.jobs.backend import Backend
from treadle.jobs.function import Call
from treadle.jobs.handle import Handle
from treadle.jobs.outputs import GroupOutput, positions_of
from treadle.jobs.workflows.steps import Edge, EmptyGroup, ForEach, Signal, Step, StepGraph
from treadle.words.after import may_fail
from treadle.words.errors import InvalidArgument
from treadle.words.graph import SIGNAL, WORKFLOW
from treadle.words.headers import encode_headers
from treadle.words.stored import Noted
from treadle.words.unique import Enqueued

LISTS = {"data", "steps", "efforts", "positions", "partitions"}
"""What has an element for each job of a block."""


class Blocks:
    """Collects the blocks. Steps must be added in an order in which each comes after those that it waits for."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.uses: list[tuple[int, UUID]] = []
        """Stored objects, with the numbers of their jobs."""
        self.backend: Backend | None = None
        self._numbers: dict[Step[Any], int] = {}
        self._count = 0
        self._workflows = 0
        self._nested: dict[StepGraph, int] = {}
        self._undo: list[dict[str, Any]] = []

    def add(self, step: Step[Any], after: Sequence[Edge]) -> None:
        with Noted() as used:
            block = self._block(step, after)
        position = step.workflow.positions.get(step)
        block |= {
            "part": self._part(step.workflow),
            "steps": [step.name],
            "efforts": [step.effort],
            "positions": [position],
        }
        if step.workflow.grows:
            block["grows"] = True
        self._numbers[step] = self._append(block, used)
        if step.undo is not None:
            with Noted() as used:
                prepared = step.undo.prepared()
            if any(
                output.source is not step for value in prepared.outputs.values() for output, _ in positions_of(value)
            ):
                raise InvalidArgument(f"{step}: undo can only use the result of its own step")
            self.uses += [(self._numbers[step], each) for each in used or ()]
            self._undo.append(
                {
                    "step": self._numbers[step],
                    "job_type": step.undo.function.name,
                    "data": prepared.data,
                    "arguments": list(prepared.outputs) or None,
                    **prepared.options,
                }
            )

    def queries(self, name: str, options: Mapping[str, Any], headers: Mapping[str, str]) -> list[Query[Any]]:
        """What enqueues the workflow: the result is that of the last one."""
        self.add_headers(headers)
        found: list[Query[Any]] = [workflow_queries.enqueue_workflow(name, self.records, self.uses, options)]
        if self.uses:
            found.insert(0, stored_queries.lock({stored_id for _, stored_id in self.uses}))
        return found

    def add_headers(self, headers: Mapping[str, str]) -> None:
        """Add these headers to those of the jobs, also of those that the workflow adds later."""
        if headers:
            encode_headers(headers)
            for block in self.records:
                plan = block.get("plan", {})
                for record in (block, plan, *plan.get("undo", ())):
                    record["headers"] = {**headers, **record.get("headers", {})}

    def add_undo(self, name: str) -> None:
        """What is to be done if the workflow fails, if anything is."""
        if self._undo:
            block = {
                "job_type": WORKFLOW,
                "workflow": self._next_workflow(),
                "data": [json.dumps({"name": f"undo {name}"})],
                "plan": {"undo": self._undo},
                "after": [{"nth": -1, "ok_to_fail": True}],
            }
            self._append(block, ())

    def add_callback(self, call: Call[Any], when: Mapping[str, Any]) -> None:
        with Noted() as used:
            block = self._called(call, [])
        block["after"] = [*(block["after"] or ()), {"nth": -1, **when}]
        self._append(block, used or ())

    def handle(self, backend: Backend, step: Step[Any], jobs: Sequence[UUID]) -> Handle[Any]:
        """The handle of a step that is enqueued."""
        job_id = jobs[self._numbers[step]]
        if isinstance(step.work, Call):
            return step.work.function.handle_of(Enqueued(job_id))
        return Handle(backend, job_id, is_new=True, returns=step.returns)

    def _block(self, step: Step[Any], after: Sequence[Edge]) -> dict[str, Any]:
        work = step.work
        if isinstance(work, Call):
            return self._called(work, after, str(step))
        if isinstance(work, Signal):
            data = {"signal": work.name} | ({} if work.timeout is None else {"timeout": work.timeout})
            records = [self._record(edge) for edge in after]
            return {"job_type": SIGNAL, "signal": True, "data": [json.dumps(data)], "after": records or None}
        if isinstance(work, ForEach):
            return self._mapped(step, work, after)
        if isinstance(work, EmptyGroup):
            return self._planned({"name": "group", "group": True}, {}, _merged(after, str(step)))
        data = {"name": step.name or work.name}
        number = self._part(work)
        return {"job_type": WORKFLOW, "workflow": number, "data": [json.dumps(data)], "returns": bool(work.positions)}

    def _called(self, call: Call[Any], after: Sequence[Edge], shown: str = "") -> dict[str, Any]:
        prepared = call.prepared()
        self.backend = call.function.backend
        edges = _merged(after, shown)
        for name, value in prepared.outputs.items():
            for output, position in positions_of(value):
                known = edges.setdefault(output.source, Edge(output.source))
                if known.arguments and known.position != position:
                    raise InvalidArgument(f"{shown}: a result is used as an argument, and in a list: use it once")
                if known.if_failed:
                    raise InvalidArgument(f"{shown}: if {output.source} fails, it has no result")
                known.arguments.append(name)
                known.position = position
                known.grows = isinstance(value, GroupOutput)
        return {
            "job_type": call.function.name,
            "data": [prepared.data],
            "after": [self._record(edge) for edge in edges.values()] or None,
            **prepared.options,
        }

    def _mapped(self, step: Step[Any], work: ForEach, after: Sequence[Edge]) -> dict[str, Any]:
        prepared = work.call.prepared()
        self.backend = work.call.function.backend
        if prepared.outputs.keys() != {work.argument}:
            raise InvalidArgument(f"{step}: the other arguments of map() must be values, not results of other steps")
        plan = {"job_type": work.call.function.name, "data": prepared.data, "argument": work.argument}
        options = dict(prepared.options)
        if "partitions" in options:
            (options["partition"],) = options.pop("partitions")
        data = {"name": step.name or work.call.function.name, "map": work.call.function.name}
        return self._planned(data, plan | options, _merged(after, str(step)))

    def _planned(self, data: dict[str, Any], plan: dict[str, Any], after: dict[Any, Edge]) -> dict[str, Any]:
        """A nested workflow that adds its jobs when it begins."""
        return {
            "job_type": WORKFLOW,
            "workflow": self._next_workflow(),
            "data": [json.dumps(data)],
            "plan": plan,
            "after": [self._record(edge) for edge in after.values()] or None,
            "returns": True,
        }

    def _append(self, block: dict[str, Any], used: Sequence[UUID]) -> int:
        """Returns the number of the job."""
        last = self.records[-1] if self.records else None
        if last is not None and "workflow" not in block and _alike(last, block):
            for name in LISTS & block.keys():
                last[name] += block[name]
        else:
            self.records.append(block)
        self.uses += [(self._count, each) for each in used]
        self._count += 1
        return self._count - 1

    def _part(self, workflow: StepGraph) -> int:
        if workflow.as_step is None:
            return 0
        if workflow not in self._nested:
            self._nested[workflow] = self._next_workflow()
        return self._nested[workflow]

    def _next_workflow(self) -> int:
        self._workflows += 1
        return self._workflows

    def _record(self, edge: Edge) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if isinstance(edge.source, Step):
            found["nth"] = self._numbers[edge.source]
        else:
            found["id"] = str(edge.source)
        if edge.ok_to_fail:
            found["ok_to_fail"] = True
        if edge.if_failed:
            found["if_failed"] = True
        if edge.arguments:
            found["arguments"] = edge.arguments
        if edge.position is not None:
            found["position"] = edge.position
        if edge.grows:
            found["grows"] = True
        return found


def _merged(after: Sequence[Edge], shown: str) -> dict[Any, Edge]:
    """One for each source, with all that was said about it."""
    by_source: dict[Any, list[Edge]] = {}
    for edge in after:
        by_source.setdefault(edge.source, []).append(edge)
    found = {}
    for source, edges in by_source.items():
        arguments = [name for edge in edges for name in edge.arguments]
        if_failed = {edge.if_failed for edge in edges}
        if if_failed != {False} and (arguments or len(if_failed) > 1):
            raise InvalidArgument(f"{shown}: if_failed({source}) cannot be used with another way to wait for it")
        ok_to_fail = may_fail([edge.ok_to_fail for edge in edges if not edge.arguments])
        found[source] = Edge(source, ok_to_fail, True in if_failed, arguments)
    return found


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether one statement can enqueue both."""
    same = one.keys() | other.keys()
    return all(one.get(name) == other.get(name) for name in same - LISTS) and one.keys() == other.keys()
