"""Queries about workflows: jobs that belong together, and the job that ends with them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from treadle.db.queries.enqueueing import EnqueueOptions, check_options
from treadle.db.query import Query, Rows, call, statement
from treadle.words.duration import duration
from treadle.words.errors import JobNotFound, QueueFull, UnknownSignal
from treadle.words.naming import text_within
from treadle.words.payload import encode

WORKFLOW = "workflow"
"""The type of a job that is a workflow."""
SIGNAL = "signal"
"""The type of a job that waits for a signal."""


class EnqueuedWorkflow(NamedTuple):
    id: UUID
    jobs: list[UUID]


def enqueue_workflow(
    name: str, blocks: Sequence[Mapping[str, Any]], uses: Sequence[tuple[int, UUID]], options: Mapping[str, Any]
) -> Query[EnqueuedWorkflow]:
    """`blocks` are as enqueue_workflow() reads them; `uses` are the stored objects, with the numbers of their jobs."""
    params = {"name": text_within(name, 200, "name"), "blocks": json.dumps(blocks), "options": json.dumps(options)}

    def read(rows: Rows) -> EnqueuedWorkflow:
        if rows[0][0] is None:
            if rows[0][1] is None:
                raise QueueFull("workflow", sum(len(block["data"]) for block in blocks))
            raise JobNotFound(rows[0][1])
        *jobs, workflow = [row[1] for row in rows]
        return EnqueuedWorkflow(workflow, jobs)

    if not uses:
        return Query(statement("enqueue_workflow"), params, read)
    stored = {"stored": ",".join(str(each) for _, each in uses), "nths": ",".join(str(nth) for nth, _ in uses)}
    return Query(statement("enqueue_workflow_using"), params | stored, read)


class WorkflowCounts(NamedTuple):
    """How many jobs of a workflow there are, and how they have ended."""

    is_open: bool
    """More are to be added: it is not closed yet."""
    jobs: int
    completed: int
    """Also those that were not needed."""
    failed: int
    cancelled: int
    """Also those that were deleted before they ended."""

    @property
    def left(self) -> int:
        """How many have not ended."""
        return self.jobs - self.completed - self.failed - self.cancelled


def count_members(workflow: UUID) -> Query[WorkflowCounts]:
    def read(rows: Rows) -> WorkflowCounts:
        if not rows:
            raise JobNotFound(workflow)
        return WorkflowCounts(*rows[0])

    return Query(statement("count_members"), {"id": workflow}, read)


def close_workflow(workflow: UUID) -> Query[bool]:
    return call("close_workflow", {"id": workflow}, lambda rows: bool(rows[0][0]))


def send_signal(workflow: UUID, name: str, value: Any, actor: str | None = None) -> Query[bool]:
    """Whether it was taken: only the first one is. Raises UnknownSignal if nothing waits for it."""
    params = {
        "id": workflow,
        "name": text_within(name, 100, "name of a signal"),
        "value": encode(value),
        "actor": actor,
    }

    def read(rows: Rows) -> bool:
        if rows[0][0] == "unknown":
            raise UnknownSignal(name, workflow)
        return bool(rows[0][0] == "taken")

    return Query(statement("send_signal"), params, read)


def retry_workflow(workflow: UUID) -> Query[int]:
    return call("retry_workflow", {"id": workflow}, lambda rows: int(rows[0][0]))


class Member(NamedTuple):
    """A job of a workflow."""

    id: UUID
    job_type: str | None
    """None: it was deleted."""
    status: str | None
    progress: int
    name: str | None
    """As the workflow names it."""


def find_members(workflow: UUID) -> Query[list[Member]]:
    return Query(statement("find_members"), {"id": workflow}, lambda rows: [Member(*row) for row in rows])


def step_options(options: EnqueueOptions) -> dict[str, Any]:
    """The options of a job, as enqueue_workflow() reads them."""
    check_options(**options)
    given: Mapping[str, Any] = options
    found = {name: given[name] for name in ("priority", "queue", "max_attempts", "weight") if name in given}
    if options.get("run_at") is not None:
        found["run_at"] = options["run_at"].isoformat()
    if options.get("delay") is not None:
        found["delay"] = duration(options["delay"], "delay").total_seconds()
    expires = options.get("expires")
    if isinstance(expires, datetime):
        found["expires_at"] = expires.isoformat()
    elif expires is not None:
        found["expires"] = duration(expires, "expires").total_seconds()
    return found
