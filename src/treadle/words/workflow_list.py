"""Workflows as they are listed."""

from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias, get_args
from uuid import UUID

WorkflowState: TypeAlias = Literal["waiting", "running", "completed", "failed", "cancelled"]
WORKFLOW_STATES: tuple[WorkflowState, ...] = get_args(WorkflowState)


class WorkflowRow(NamedTuple):
    id: UUID
    name: str | None
    """A part of its payload. None also for those who may not see payloads."""
    state: WorkflowState
    """waiting: none of its jobs has begun."""
    is_open: bool
    """More jobs are to be added."""
    jobs: int
    completed: int
    """Also those that were not needed."""
    failed: int
    cancelled: int
    progress: int
    """In percent."""
    created_at: datetime
    finished_at: datetime | None
    queue: str

    @property
    def ended(self) -> int:
        return self.completed + self.failed + self.cancelled


class WorkflowList(NamedTuple):
    at: datetime
    """Now, by the database's clock."""
    workflows: list[WorkflowRow]
    """The newest first."""
    next: UUID | None
    """Continue after this one; None: there are no more."""
    examined: int | None
    """How many were examined, if the page is not full and there are more; else None."""
