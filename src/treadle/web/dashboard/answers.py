"""What the API answers. These are its promise: they change only on purpose, whatever the values inside look like."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from treadle.doctor import Severity
from treadle.words.status import Status


class Answer(BaseModel):
    model_config = ConfigDict(from_attributes=True, extra="forbid", use_attribute_docstrings=True)


class Refusal(Answer):
    error: str
    """A sentence."""


class PauseAnswer(Answer):
    """What is not claimed for now."""

    job_type: str | None
    """Null: every type."""
    queue: str | None
    """Null: every queue."""
    paused_at: datetime
    paused_by: str | None
    reason: str | None


class LaneAnswer(Answer):
    """The jobs of one queue, type and priority that wait."""

    queue: str
    job_type: str
    priority: int
    depth: int
    exact: bool
    """False: `depth` is an estimate."""
    due_since: datetime | None
    due_next: datetime | None
    paused: bool
    served: bool
    """A live worker claims from it."""


class WorkerAnswer(Answer):
    worker_id: str
    host: str | None
    pid: int | None
    version: str | None
    job_types: list[str] | None
    queues: list[str] | None
    """Null: all."""
    concurrency: int | None
    started_at: datetime
    seen_at: datetime
    alive: bool
    lost_at: datetime | None
    holds: int
    """Jobs that it has claimed or runs."""


class SpanAnswer(Answer):
    """What ended from `at` on, for as long as a step."""

    at: datetime
    completed: int
    failed: int
    cancelled: int
    errors: int
    """Attempts that failed, those that were tried again included."""
    waited: float | None
    """Seconds, on the average, from due to claimed."""
    waited_most: float | None
    ran: float | None
    ran_most: float | None


class TotalAnswer(Answer):
    jobs: int
    exact: bool
    """False: an estimate."""


class OverviewAnswer(Answer):
    at: datetime
    """By the database's clock."""
    rate: float
    """Ends a second."""
    totals: dict[Status, TotalAnswer]
    lanes: list[LaneAnswer]
    workers: list[WorkerAnswer]
    pauses: list[PauseAnswer]
    spans: list[SpanAnswer]
    """Oldest first; the last one is not over."""
    step: float
    """Seconds of a span."""


class ListedAnswer(Answer):
    """As much of a job as a list shows."""

    id: UUID
    job_type: str
    queue: str
    priority: int
    status: Status
    progress: int
    stage: str | None
    attempts: int
    max_attempts: int
    worker_id: str | None
    key: str | None
    held: bool
    """Behind an earlier job with its key."""
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    """The beginning of it."""


class ListAnswer(Answer):
    jobs: list[ListedAnswer]
    next: str | None
    """`after` of the next page; null: this was the last one."""
    looked: int | None
    """So many jobs were looked at, and not all that there are: go on with `next`."""


class AttemptAnswer(Answer):
    """An attempt that failed."""

    attempt: int
    started_at: datetime | None
    failed_at: datetime
    worker_id: str | None
    error: str
    traceback: str | None


class EventAnswer(Answer):
    name: str
    at: datetime
    attempt: int
    number: int | None
    """Null: told by the queue itself."""
    data: Any


class LogAnswer(Answer):
    number: int
    at: datetime
    attempt: int
    level: str
    logger: str
    message: str


class StepAnswer(Answer):
    """A step that is done."""

    name: str
    result: Any
    """Null for viewers."""


class AuditedAnswer(Answer):
    """One change that an operator made."""

    id: int
    at: datetime
    actor: str
    action: str
    job_id: UUID | None
    job_type: str | None
    queue: str | None
    reason: str | None
    details: Any
    """What it was before, and what was asked."""


class JobAnswer(Answer):
    id: UUID
    job_type: str
    queue: str
    priority: int
    status: Status
    progress: int
    stage: str | None
    attempts: int
    max_attempts: int
    crashes: int
    worker_id: str | None
    key: str | None
    unique_key: str | None
    created_at: datetime
    run_at: datetime
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    data: Any
    """Null for viewers; what looks like a secret is masked."""
    result: Any
    """Null for viewers."""
    checkpoint: Any
    """Null for viewers."""
    failed_attempts: list[AttemptAnswer]
    steps: list[StepAnswer]
    events: list[EventAnswer]
    """The newest, oldest of them first."""
    earlier_events: int
    """So many came before them."""
    logs: list[LogAnswer]
    earlier_logs: int
    audit: list[AuditedAnswer]


class OtherAnswer(Answer):
    name: str
    short: str


class WhyAnswer(Answer):
    """Why a job does not run."""

    name: str
    """The same in every version, for programs: due_later, paused, …"""
    sentence: str
    remedy: str
    """What to do."""
    data: dict[str, Any]
    """What the sentence is made of."""
    also: list[OtherAnswer]
    """What would be left if this were lifted."""


class FindingAnswer(Answer):
    """What a check has to say."""

    name: str
    level: Severity
    title: str
    detail: str
    remedy: str


class HealthAnswer(Answer):
    level: Severity
    """Of the worst finding."""
    findings: list[FindingAnswer]
    """The worst first."""


class WorkersAnswer(Answer):
    workers: list[WorkerAnswer]


class PausesAnswer(Answer):
    pauses: list[PauseAnswer]


class AuditAnswer(Answer):
    changes: list[AuditedAnswer]
    """The newest first."""
    next: int | None
    """`before` of the next page; null: this was the last one."""


class ChangedAnswer(Answer):
    id: UUID
    outcome: Literal["done"]
    status: Status
    """As it was before."""


class ChunkAnswer(Answer):
    done: int
    unfit: int
    """Of a status that does not allow it, or nothing would change."""
    busy: int
    """Somebody held their rows."""
    missing: int
    next: str | None
    """`after` of the next chunk; null: these were all."""


class DoneAnswer(Answer):
    done: bool
    """False: it was so already."""
