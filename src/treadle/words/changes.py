"""What operators do, and what is kept of it."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from treadle.words.json import Json
from treadle.words.status import Status


class Action(StrEnum):
    """What can be done to a job."""

    RETRY = "retry"
    CANCEL = "cancel"
    DELETE = "delete"
    RUN_NOW = "run_now"
    PRIORITY = "priority"


class Change(NamedTuple):
    """What is to be done to jobs, by whom and why."""

    action: Action
    actor: str
    reason: str | None = None
    priority: int | None = None


class Operated(NamedTuple):
    """What came of an action on a job."""

    id: UUID
    outcome: str
    """done; unfit: its status does not allow it, or nothing would change; busy: somebody holds its row; missing."""
    status: Status | None
    """As it was before."""


class Pause(NamedTuple):
    """Jobs that are not claimed for now: of this type, in this queue; None is any."""

    job_type: str | None
    queue: str | None
    paused_at: datetime
    paused_by: str | None
    reason: str | None


class Audited(NamedTuple):
    """One change that an operator made."""

    id: int
    at: datetime
    actor: str
    action: str
    job_id: UUID | None
    job_type: str | None
    queue: str | None
    reason: str | None
    details: Json
    """What it was before, and what was asked."""
