"""Changes by operators, and their entries in the audit."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from treadle.words.json import Json
from treadle.words.status import Status

# The jobs of an act are counted up to here.
ACT_LIMIT = 10_000


# The actions of the audit, and what they are called on pages.
AUDIT_ACTIONS = {
    "retry": "retry",
    "cancel": "cancel",
    "delete": "delete",
    "run_now": "run now",
    "priority": "change priority",
    "edit": "change arguments",
    "copy": "copy",
    "pause": "pause",
    "resume": "resume",
    "limit": "change limit",
    "reset limit": "reset limit",
    "concurrency": "change concurrency",
    "reset concurrency": "reset concurrency",
    "signal": "send signal",
    "mute errors": "mute errors",
    "unmute errors": "unmute errors",
    "put schedule": "add or change schedule",
    "pause schedule": "pause schedule",
    "resume schedule": "resume schedule",
    "run schedule": "run schedule",
    "delete schedule": "delete schedule",
}


class Action(StrEnum):
    """An operator's action on a job."""

    RETRY = "retry"
    CANCEL = "cancel"
    DELETE = "delete"
    RUN_NOW = "run_now"
    PRIORITY = "priority"


class Change(NamedTuple):
    """An action on jobs, by whom and why."""

    action: Action
    actor: str
    reason: str | None = None
    priority: int | None = None


class ChangeResult(NamedTuple):
    """The result of an action on one job."""

    id: UUID
    outcome: str
    """done; unfit: its status does not allow it, or there is nothing to change; busy: its row is locked; missing;
    repeated: the act was begun before, and nothing was changed."""
    status: Status | None
    """Before the action."""


class Pause(NamedTuple):
    """Jobs of this type in this queue are not claimed; None stands for any."""

    job_type: str | None
    queue: str | None
    paused_at: datetime
    paused_by: str | None
    reason: str | None


class AuditEntry(NamedTuple):
    """One change by an operator."""

    id: int
    at: datetime
    actor: str
    action: str
    job_id: UUID | None
    job_type: str | None
    queue: str | None
    reason: str | None
    details: Json
    """The values before the change, and the requested ones."""
    act: UUID | None = None
    """The act that it belongs to: a change of several jobs is one act."""


class ActJob(NamedTuple):
    id: UUID
    job_type: str


class Act(NamedTuple):
    """What an operator did at once: one change, or the same change of several jobs."""

    first: AuditEntry
    jobs: int
    """How many it changed; 10,001 stands for more than 10,000. 0: it was no change of jobs."""
    examples: list[ActJob]
    """The first 20 of them."""


class ActList(NamedTuple):
    acts: list[Act]
    """The newest first."""
    next: int | None
    """Where the list continues; None: there are no more."""
    examined: int
    """How many acts were compared with the filter."""


class AuditFilter(NamedTuple):
    """Which acts to list; None stands for any."""

    actor: str | None = None
    """A part of the name, regardless of case."""
    action: str | None = None
    job_type: str | None = None
    since: datetime | None = None
    until: datetime | None = None
