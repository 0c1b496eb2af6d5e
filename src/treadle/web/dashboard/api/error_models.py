"""The requests and responses of the API about groups of errors."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, StringConstraints

from treadle.web.dashboard.api.model import ResponseModel
from treadle.web.dashboard.api.request_models import Name, Reason, RequestModel
from treadle.words.status import Status


class Mute(ResponseModel):
    """A muted group is counted and shown, but is no alarm."""

    at: datetime
    by: str | None
    reason: str | None
    until: datetime | None
    """Null: until it is unmuted, or a new version fails."""
    until_new_version: bool


class ErrorGroup(ResponseModel):
    """Failed attempts with the same job type, exception and message, apart from what differs each time."""

    id: int
    job_type: str
    exception: str
    """The class of the exception. Empty: the handler raised none, as when it timed out or its process died."""
    message: str
    """With placeholders such as `<number>`."""
    failures: int
    """Failed attempts since `first_seen`, including those that were retried."""
    first_seen: datetime
    last_seen: datetime
    queues: list[str]
    versions: list[str]
    """The versions of the application in which it failed, the latest first; at most five."""
    trend: list[int]
    """Failed attempts per hour: the last 24 hours, the current one last."""
    muted: Mute | None


class ErrorGroupList(ResponseModel):
    at: datetime
    """By the database's clock."""
    groups: list[ErrorGroup]
    more: bool
    """There are more groups than are listed."""
    muted: int
    """How many of those that match are muted, whether or not they are listed."""


class VersionCount(ResponseModel):
    version: str
    failures: int
    first_seen: datetime
    last_seen: datetime


class Example(ResponseModel):
    job_id: UUID
    failed_at: datetime
    error: str
    traceback: str | None


class GroupJob(ResponseModel):
    """A job whose last failure is in the group."""

    id: UUID
    queue: str
    status: Status
    attempts: int
    max_attempts: int
    failed_at: datetime
    run_at: datetime
    error: str | None
    """Its first characters."""


class GroupJobs(ResponseModel):
    jobs: list[GroupJob]
    next: str | None
    """Null: these are all."""
    looked: int
    """How many failures were examined."""


class ErrorGroupDetails(ResponseModel):
    at: datetime
    group: ErrorGroup
    versions: list[VersionCount]
    """The latest first."""
    example: Example | None
    """A recent failure, with its traceback."""
    failed: GroupJobs
    """The jobs that have failed: the latest."""
    pending: GroupJobs
    """The jobs that wait for another attempt: the latest."""


class MuteChange(ResponseModel):
    done: bool
    """False: it was not muted."""


class ErrorGroupsQuery(RequestModel):
    type: Name | None = None
    queue: Name | None = None
    muted: Literal["true", "false"] | None = None
    """Only those that are muted, or only the others."""
    order: Literal["failures", "last_seen", "first_seen"] = "failures"
    """`failures`: the most within the last 24 hours first; `last_seen` and `first_seen`: the latest first."""
    limit: Annotated[int, Field(ge=1, le=200)] = 100


class GroupChangeBody(RequestModel):
    reason: Reason | None = None
    after: Annotated[str, StringConstraints(max_length=200)] | None = None
    """`next` of the previous response."""
    act: UUID | None = None
    """A number of your own for this change. If a request that begins a change is sent twice, the second one is refused
    with 409. A cursor in `after` contains it."""


class MuteBody(RequestModel):
    seconds: Annotated[float, Field(gt=0, le=366 * 86_400)] | None = None
    """For how long; null: until it is unmuted."""
    until_new_version: bool = False
    """Until a version of the application fails that does not run yet, and has not failed in this group."""
    reason: Reason | None = None


class UnmuteBody(RequestModel):
    reason: Reason | None = None
