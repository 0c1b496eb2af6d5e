"""What the operations of the API return, where it is not a value of words/, and how the API shows those that are.

A response is a NamedTuple: its fields are those of the JSON object, and their docstrings describe them (model.py).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from treadle.operations.details import JobDetails as FullDetails
from treadle.operations.details import Step
from treadle.web.dashboard.actions import Chunk
from treadle.web.dashboard.health import HealthReport
from treadle.why.reason import Other, Reason
from treadle.words.changes import ActList, AuditEntry, Pause
from treadle.words.error_group import ErrorGroups, GroupDetails
from treadle.words.job import JobError
from treadle.words.json import Json
from treadle.words.limit_status import LimitStatus
from treadle.words.listing import JobSummary
from treadle.words.overview import Overview, Span, WorkerRow
from treadle.words.places import Activity, Place
from treadle.words.record import LogLine, RecordedEvent
from treadle.words.schedule_status import ScheduleStatus
from treadle.words.status import Status
from treadle.words.stuck import Stuck
from treadle.words.workflow_list import WorkflowRow


class Shown(NamedTuple):
    """How the API shows a value, where that differs from its fields."""

    name: str
    without: Sequence[str] = ()
    """Fields that are left out."""
    properties: Sequence[str] = ()
    """Properties that are shown like fields."""
    types: Mapping[str, Any] = {}
    """Of fields that may have other values in rows that were written by SQL."""


SHOWN: Mapping[type, Shown] = {
    ActList: Shown("ActList", without=["examined"]),
    Activity: Shown("Activity", properties=["failure_share", "rate"]),
    Chunk: Shown("BulkChange"),
    ErrorGroups: Shown("ErrorGroupList"),
    GroupDetails: Shown("ErrorGroupDetails"),
    HealthReport: Shown("Health", properties=["level"]),
    JobError: Shown("FailedAttempt"),
    LimitStatus: Shown("Limit", properties=["description", "paused", "reached"]),
    Other: Shown("FurtherReason"),
    Overview: Shown("Overview", without=["running"]),
    Reason: Shown("Why", without=["short"]),
    RecordedEvent: Shown("Event", without=["job_id", "job_type", "cursor"], types={"data": Any}),
    ScheduleStatus: Shown("Schedule", properties=["description"]),
    Stuck: Shown("StuckWorker"),
    WorkerRow: Shown("Worker"),
    WorkflowRow: Shown("Workflow"),
}


class Error(NamedTuple):
    error: str
    """What went wrong, for people."""


class Done(NamedTuple):
    done: bool
    """False: it was already so, and nothing changed."""


class JobList(NamedTuple):
    jobs: list[JobSummary]
    next: str | None
    """Pass it as `after` to get the next page; null on the last page."""
    examined: int | None
    """Set if the search stopped after examining this many jobs; continue with `next`."""
    reached: datetime | None
    """The jobs that finished, or were enqueued, at this time or later were examined; null on the last page,
    and for lists in another order."""


class JobDetails(NamedTuple):
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
    data: Json
    """Null for viewers. Values that look like secrets are masked."""
    result: Json
    """Null for viewers."""
    checkpoint: Json
    """Null for viewers."""
    headers: Json
    """Named strings that were stored with the job. Null for viewers, and if there are none."""
    failed_attempts: list[JobError]
    steps: list[Step]
    events: list[RecordedEvent]
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


def job_details(found: FullDetails) -> JobDetails:
    """In the details, fields of the job and lists of what belongs to it are apart."""
    given = {**found.job._asdict(), **found._asdict()}
    given |= {"stage": found.job.current_stage, "error": found.job.last_error}
    given |= {"failed_attempts": found.errors, "hidden": found.hidden}
    return JobDetails(**{name: given[name] for name in JobDetails._fields})


class JobChange(NamedTuple):
    id: UUID
    outcome: Literal["done"]
    status: Status
    """The status before the change."""


class JobCopy(NamedTuple):
    id: UUID
    """The new job."""


class WorkerList(NamedTuple):
    workers: list[WorkerRow]


class PauseList(NamedTuple):
    pauses: list[Pause]


class AuditList(NamedTuple):
    changes: list[AuditEntry]
    """Newest first."""
    next: int | None
    """Pass it as `before` to get the next page; null on the last page."""


class LimitList(NamedTuple):
    limits: list[LimitStatus]
    """Those that jobs wait for first."""
    more: bool
    """There may be more than these."""


class TypeList(NamedTuple):
    at: datetime
    window: int
    types: list[Place]


class QueueList(NamedTuple):
    at: datetime
    window: int
    queues: list[Place]


class PlaceDetails(NamedTuple):
    at: datetime
    summary: Place
    parts: list[Place]
    """Of a type, each queue that it is in; of a queue, each type."""
    activities: list[Activity]
    """Of the last hour, 6 hours, day and week."""
    step: int
    """Length of a span, in seconds."""
    spans: list[Span]
    """Oldest first. The last one is incomplete."""
    depths: list[int | None]
    """How many jobs waited at most during each span. Null: that was not counted."""
