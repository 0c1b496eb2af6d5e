"""The query parameters and request bodies of the API."""

from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from treadle.db.queries.error_groups import GroupFilter
from treadle.db.queries.operations import CHUNK
from treadle.web.dashboard.filters import NAMES, read_audit_filter, read_filter
from treadle.words import listing
from treadle.words.changes import Action, AuditFilter
from treadle.words.limits import MOST, MOST_PENDING
from treadle.words.naming import MOST_CONCURRENCY
from treadle.words.schedule_status import State
from treadle.words.workflow_list import WorkflowState

# Ten years.
MOST_SECONDS = 315_360_000
_LINE = r"^[^\x00\r\n]+$"
Name = Annotated[str, StringConstraints(min_length=1, max_length=50, pattern=_LINE)]
ScheduleName = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=_LINE)]
LimitName = ScheduleName
LimitKey = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00\r\n]*$")]
WorkerName = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=_LINE)]
Moment = Annotated[str, StringConstraints(min_length=1, max_length=50, pattern=_LINE)]
Priority = Annotated[int, Field(strict=True, ge=-(2**31) + 1, le=2**31 - 1)]
Reason = Annotated[str, StringConstraints(max_length=2000)]


class RequestModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class OverviewQuery(RequestModel):
    window: Literal["3600", "21600", "86400", "604800"] = "3600"
    """Time span of the charts, in seconds."""


class NamesQuery(RequestModel):
    search: Name | None = None
    """A part of the name, regardless of case."""


class JobFilter(RequestModel):
    """Selects jobs that match all of the given fields."""

    status: Literal["pending", "blocked", "later", "claimed", "running", "completed", "failed", "cancelled"] | None = (
        None
    )
    """A status; `later`: pending, but not due yet; `blocked`: pending, but an earlier job with its key, or jobs that
    it waits for, have to end first."""
    type: Name | None = None
    queue: Name | None = None
    worker: WorkerName | None = None
    key: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_LINE)] | None = None
    search: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_LINE)] | None = None
    """A text in the payload or the error; or a job id, or at least 8 of its first or last digits.
    For viewers, payloads are not searched."""
    since: Moment | None = None
    """A time in ISO 8601 (UTC without an offset), seconds since 1970, or a duration such as `2h` (ago). If the
    status is a finished one: jobs that finished at this time or later; else: jobs that were enqueued."""
    until: Moment | None = None
    """Jobs before this time."""
    where: Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=_LINE)] | None = None
    """A value in the payload: `data.order = "ORD-1999"`, `data.customer.id = 7` or `data.note exists`; several
    are joined with `and`, and all must hold. Requires the role operator."""

    @property
    def job_filter(self) -> listing.JobFilter:
        return read_filter(*(getattr(self, name) for name in NAMES))


class JobsQuery(JobFilter):
    after: Annotated[str, StringConstraints(max_length=200)] | None = None
    """`next` of the previous page."""
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Jobs per page."""


class AuditQuery(RequestModel):
    job_id: UUID | None = None
    """Only changes of this job."""
    act: UUID | None = None
    """Only the changes of this act."""
    before: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None
    """`next` of the previous page."""
    limit: Annotated[int, Field(ge=1, le=200)] = 100
    """Changes per page."""


class ActsQuery(RequestModel):
    actor: Annotated[str, StringConstraints(max_length=200)] | None = None
    """A part of the name of who made the change."""
    action: Annotated[str, StringConstraints(max_length=50)] | None = None
    job_type: Annotated[str, StringConstraints(max_length=50)] | None = None
    since: Moment | None = None
    """A time in ISO 8601 (UTC without an offset), seconds since 1970, or a duration such as `2h` (ago)."""
    until: Moment | None = None
    """Changes before this time."""
    before: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None
    """`next` of the previous page."""
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Acts per page. With a filter, a page may have fewer although there are more."""

    @property
    def chosen(self) -> AuditFilter:
        return read_audit_filter(self.actor, self.action, self.job_type, self.since, self.until)


class SchedulesQuery(RequestModel):
    after: ScheduleName | None = None
    """`next` of the previous page."""
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Schedules per page."""
    search: ScheduleName | None = None
    """A part of the name or of the job type."""
    state: State | None = None


class ScheduleQuery(RequestModel):
    name: ScheduleName


class LimitsQuery(RequestModel):
    name: LimitName | None = None
    """Only the limit of this name, with its keys."""
    key: LimitKey | None = None
    """With `name`: only its keys that begin with this text, and the key that equals it even if nothing uses it."""
    search: LimitName | None = None
    """A part of the name, the job type or the queue. The limits are listed without their keys."""
    limit: Annotated[int, Field(ge=1, le=200)] = 100
    """Limits and keys that are listed."""

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if self.key is not None and self.name is None:
            raise ValueError("key requires the name of a limit")
        if self.search is not None and self.name is not None:
            raise ValueError("give either name or search")
        return self


class ChangeBody(RequestModel):
    reason: Reason | None = None
    """Written to the audit; for a cancelled job, also its error."""


class EditBody(ChangeBody):
    arguments: dict[str, Any]
    """Those that change, with their values. The others stay as they are."""
    retry: bool = False
    """Whether a job that has failed or was cancelled then runs again."""


class CopyBody(ChangeBody):
    arguments: dict[str, Any] = {}
    """Those that change, with their values. The others are those of the job that is copied."""
    act: UUID | None = None
    """A UUID of your own. A request that is sent again with the same one is refused."""


class ScheduleBody(ChangeBody):
    name: ScheduleName


class LimitBody(ChangeBody):
    name: LimitName
    key: LimitKey | None = None
    """Only for this value of the limit's argument; empty: for the jobs without one. Null: for all."""


class SetLimitBody(LimitBody):
    amount: Annotated[int, Field(strict=True, ge=0, le=MOST_PENDING)] | None
    """How many; 0: none. Null: no limit. Of fairness: the weight of the key. Of aging: how many of a hundred claims."""
    seconds: Annotated[float, Field(strict=True, gt=0, le=MOST_SECONDS)] | None = None
    """The period. Null: unchanged, or the limit is for jobs that run at once."""
    burst: Annotated[int, Field(strict=True, ge=1, le=MOST)] | None = None
    """How many may start at once after a quiet time. Null: unchanged."""


class ConcurrencyBody(ChangeBody):
    worker_id: WorkerName
    concurrency: Annotated[int, Field(strict=True, ge=0, le=MOST_CONCURRENCY)] | None
    """0: the worker claims nothing; null: as many as it was started with."""


class PriorityBody(ChangeBody):
    priority: Priority


class SignalBody(RequestModel):
    name: ScheduleName
    value: Any = None
    """The result of the step that waits for the signal."""


class BulkBody(ChangeBody):
    """One chunk of a bulk change: either the given ids, or the jobs that match a filter, starting at a cursor."""

    action: Action
    ids: Annotated[list[UUID], Field(min_length=1, max_length=CHUNK)] | None = None
    filter: JobFilter | None = None
    all: bool = False
    """Must be true if the filter is empty, to confirm that the change applies to every job."""
    after: Annotated[str, StringConstraints(max_length=200)] | None = None
    """`next` of the previous chunk."""
    priority: Priority | None = None
    """Required for the action priority."""
    act: UUID | None = None
    """A number of your own for this change. If a request that begins a change is sent twice, the second one is refused
    with 409. A cursor in `after` contains it."""

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if (self.ids is None) == (self.filter is None):
            raise ValueError("give either ids or filter")
        if self.filter is not None and any(self.filter.job_filter) == self.all:
            raise ValueError("filter must not be empty, unless all is true: then every job is changed")
        if self.after is not None and self.filter is None:
            raise ValueError("after requires a filter")
        if (self.priority is not None) != (self.action is Action.PRIORITY):
            raise ValueError("priority is required for the action priority, and not allowed for others")
        return self


class ResumeBody(ChangeBody):
    """A job type, a queue, or both."""

    job_type: Name | None = None
    queue: Name | None = None


class PauseBody(ResumeBody):
    """A job type, a queue, or both; or everything."""

    everything: bool = False
    """True, without a type and a queue: pauses all jobs."""


class ErrorGroupsQuery(RequestModel):
    type: Name | None = None
    queue: Name | None = None
    muted: Literal["true", "false"] | None = None
    """Only those that are muted, or only the others."""
    order: Literal["failures", "last_seen", "first_seen"] = "failures"
    """`failures`: the most within the last 24 hours first; `last_seen` and `first_seen`: the latest first."""
    limit: Annotated[int, Field(ge=1, le=200)] = 100

    @property
    def chosen(self) -> GroupFilter:
        return GroupFilter(self.type, self.queue, None if self.muted is None else self.muted == "true", self.order)


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
