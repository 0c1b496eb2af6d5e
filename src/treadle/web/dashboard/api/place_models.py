"""The responses of the API about job types, queues and workflows."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from treadle.web.dashboard.api.model import ResponseModel
from treadle.web.dashboard.api.request_models import Name, RequestModel
from treadle.web.dashboard.api.response_models import Span, Total
from treadle.words.workflow_list import WorkflowState


class Times(ResponseModel):
    """Seconds. Percentiles are exact to the bucket of a histogram, and interpolated in it. Null: unknown."""

    p50: float | None
    p95: float | None
    p99: float | None
    most: float | None
    mean: float | None


class Activity(ResponseModel):
    """What finished in the last `window` seconds."""

    window: int
    completed: int
    failed: int
    cancelled: int
    errors: int
    """Failed attempts, including those that were retried."""
    failure_share: float | None
    """Failed attempts of all attempts that ended. Null: none has."""
    rate: float
    """Finished jobs per second."""
    waited: Times
    """From due to claimed, of completed jobs."""
    ran: Times


class Place(ResponseModel):
    """A job type, a queue, or a type in a queue."""

    job_type: str | None
    """Null: all types of the queue."""
    queue: str | None
    """Null: all queues of the type."""
    waiting: Total
    due_since: datetime | None
    """Since when the first job could run. Null: none is due."""
    paused: bool
    partly_paused: bool
    """Only in some queues, or only some types."""
    workers: int
    """Live workers that claim from it."""
    unserved: bool
    """Jobs wait that no live worker claims."""
    activity: Activity


class TypeList(ResponseModel):
    at: datetime
    window: int
    types: list[Place]


class QueueList(ResponseModel):
    at: datetime
    window: int
    queues: list[Place]


class PlaceDetails(ResponseModel):
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


class Workflow(ResponseModel):
    id: UUID
    name: str | None
    """Null also for those who may not see payloads."""
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


class WorkflowList(ResponseModel):
    at: datetime
    workflows: list[Workflow]
    """The newest first."""
    next: UUID | None
    """Pass it as `after` to get the next page; null on the last page."""
    examined: int | None
    """How many workflows were examined, if the page is not full and there are more."""


class WindowQuery(RequestModel):
    window: Literal["3600", "21600", "86400", "604800"] = "3600"
    """In seconds."""


class PlaceQuery(WindowQuery):
    name: Name


class WorkflowsQuery(RequestModel):
    state: WorkflowState | None = None
    name: str | None = Field(default=None, min_length=1, max_length=200)
    """A part of the name. Requires the role operator: names are in payloads."""
    after: UUID | None = None
    """`next` of the page before."""
    limit: int = Field(default=50, ge=1, le=500)
