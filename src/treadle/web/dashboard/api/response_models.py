"""The responses of the API. These models are its contract: they change only deliberately, independently of the values
inside Treadle."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from treadle.doctor import Severity
from treadle.web.dashboard.api.model import ResponseModel
from treadle.web.dashboard.api.worker_models import Worker
from treadle.words.refusal import Refusal
from treadle.words.status import Status


class Error(ResponseModel):
    error: str
    """What went wrong, for people."""


class Pause(ResponseModel):
    """Jobs that workers do not claim until they are resumed."""

    job_type: str | None
    """Null: all types."""
    queue: str | None
    """Null: all queues."""
    paused_at: datetime
    paused_by: str | None
    reason: str | None


class Lane(ResponseModel):
    """The waiting jobs of one queue, type and priority."""

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
    """Whether a live worker claims from this lane."""
    counted_at: datetime | None
    """If `exact` is false: when a worker counted them. Null: nobody has, and there are at least `depth`."""


class Span(ResponseModel):
    """The jobs that finished during one step of the charts, which starts at `at`."""

    at: datetime
    completed: int
    failed: int
    cancelled: int
    errors: int
    """Failed attempts, including those that were retried."""
    waited: float | None
    """Average time from due to claimed, in seconds."""
    waited_most: float | None
    ran: float | None
    """Average run time, in seconds."""
    ran_most: float | None
    waited_p50: float | None
    """Percentiles are exact to the bucket of a histogram, and interpolated in it."""
    waited_p95: float | None
    waited_p99: float | None
    ran_p50: float | None
    ran_p95: float | None
    ran_p99: float | None


class Total(ResponseModel):
    jobs: int
    exact: bool
    """False: an estimate."""
    counted_at: datetime | None
    """If `exact` is false: when a worker counted them. Null: nobody has, and there are at least so many."""


class Overview(ResponseModel):
    at: datetime
    """The clock of the database."""
    rate: float
    """Finished jobs per second."""
    totals: dict[Status, Total]
    lanes: list[Lane]
    workers: list[Worker]
    pauses: list[Pause]
    spans: list[Span]
    """Oldest first. The last one is incomplete."""
    step: float
    """Length of a span, in seconds."""
    refusal: Refusal | None
    """Why the server refuses what workers write."""


class JobSummary(ResponseModel):
    """A job in a list."""

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
    """Blocked by an earlier job with the same key, or by jobs that it waits for."""
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    """Truncated."""


class JobList(ResponseModel):
    jobs: list[JobSummary]
    next: str | None
    """Pass it as `after` to get the next page; null on the last page."""
    looked: int | None = Field(validation_alias="examined")
    """Set if the search stopped after examining this many jobs; continue with `next`."""
    reached: datetime | None
    """The jobs that finished, or were enqueued, at this time or later were examined; null on the last page,
    and for lists in another order."""


class FailedAttempt(ResponseModel):
    attempt: int
    started_at: datetime | None
    failed_at: datetime
    worker_id: str | None
    error: str
    traceback: str | None


class Event(ResponseModel):
    name: str
    at: datetime
    attempt: int
    number: int | None
    """Null for events of the queue itself, such as claimed."""
    data: Any


class LogLine(ResponseModel):
    number: int
    at: datetime
    attempt: int
    level: str
    logger: str
    message: str


class Step(ResponseModel):
    """A completed step."""

    name: str
    result: Any
    """Null for viewers."""


class AuditEntry(ResponseModel):
    """A change that an operator made."""

    id: int
    at: datetime
    actor: str
    action: str
    job_id: UUID | None
    job_type: str | None
    queue: str | None
    reason: str | None
    details: Any
    """The previous values, and the arguments of the action."""
    act: UUID | None
    """The act that it belongs to: a change of several jobs is one act."""


class JobDetails(ResponseModel):
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
    expires_at: datetime | None
    """If no worker has claimed the job by then, it is cancelled."""
    error: str | None
    data: Any
    """Null for viewers. Values that look like secrets are masked."""
    result: Any
    """Null for viewers."""
    checkpoint: Any
    """Null for viewers."""
    headers: Any
    """Named strings that were stored with the job. Null for viewers, and if there are none."""
    failed_attempts: list[FailedAttempt]
    steps: list[Step]
    events: list[Event]
    """The most recent events, oldest first."""
    earlier_events: int
    """Number of earlier events that are not included."""
    logs: list[LogLine]
    """The most recent log lines, oldest first."""
    earlier_logs: int
    """Number of earlier log lines that are not included."""
    audit: list[AuditEntry]
    hidden: list[str]
    """The fields that are null because you, or the database role of the dashboard, may not see them: `data`, `result`,
    `checkpoint`, `headers` and `steps.result`. Empty: null means that there is none."""


class FurtherReason(ResponseModel):
    name: str
    short: str


class Why(ResponseModel):
    """Why a job is not running, or a schedule does not run."""

    name: str
    """Stable across versions, for programs: due_later, paused, …"""
    sentence: str
    remedy: str
    """What you can do about it."""
    data: dict[str, Any]
    """The values in the sentence."""
    also: list[FurtherReason]
    """Reasons that remain after this one is resolved."""


class Finding(ResponseModel):
    """The result of one health check."""

    name: str
    level: Severity
    title: str
    detail: str
    remedy: str


class Health(ResponseModel):
    level: Severity
    """The level of the worst finding."""
    findings: list[Finding]
    """Worst first."""
    examined_at: datetime
    """At most 20 seconds ago."""


class WorkerList(ResponseModel):
    workers: list[Worker]


class Names(ResponseModel):
    """In alphabetical order; at most 200 of each kind."""

    types: list[str]
    queues: list[str]
    workers: list[str]


class PauseList(ResponseModel):
    pauses: list[Pause]


class AuditList(ResponseModel):
    changes: list[AuditEntry]
    """Newest first."""
    next: int | None
    """Pass it as `before` to get the next page; null on the last page."""


class ActJob(ResponseModel):
    id: UUID
    job_type: str


class Act(ResponseModel):
    """What an operator did at once."""

    first: AuditEntry
    jobs: int
    """How many jobs it changed; 10,001 stands for more than 10,000. 0: it was no change of jobs."""
    examples: list[ActJob]
    """The first 20 of them."""


class ActList(ResponseModel):
    acts: list[Act]
    """Newest first."""
    next: int | None
    """Pass it as `before` to get the next page; null on the last page."""


class JobChange(ResponseModel):
    id: UUID
    outcome: Literal["done"]
    status: Status
    """The status before the change."""


class BulkChange(ResponseModel):
    """The number of jobs per outcome in one chunk."""

    done: int
    unfit: int
    """The status does not allow the action, or nothing would change."""
    busy: int
    """The row is locked by another transaction."""
    missing: int
    """The job does not exist."""
    next: str | None
    """Pass it as `after` to change the next chunk; null after the last one."""


class SignalSent(ResponseModel):
    done: bool


class ConcurrencyChange(ResponseModel):
    done: bool
    """False: it was already so, and nothing changed."""


class PauseChange(ResponseModel):
    done: bool
    """False: it was already so, and nothing changed."""
