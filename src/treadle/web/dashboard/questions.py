"""What the API is asked: after the question mark, and in the body."""

from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from treadle.db.queries.operations import CHUNK
from treadle.words.changes import Action
from treadle.words.listing import Wanted

_LINE = r"^[^\x00\r\n]+$"
Name = Annotated[str, StringConstraints(min_length=1, max_length=50, pattern=_LINE)]
Priority = Annotated[int, Field(strict=True, ge=-(2**31) + 1, le=2**31 - 1)]
Reason = Annotated[str, StringConstraints(max_length=2000)]


class Question(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class OverviewQuestion(Question):
    window: Literal["3600", "21600", "86400", "604800"] = "3600"
    """Seconds of the charts."""


class Filter(Question):
    """Which jobs; what is left out does not matter."""

    status: Literal["pending", "held", "later", "claimed", "running", "completed", "failed", "cancelled"] | None = None
    type: Name | None = None
    queue: Name | None = None
    worker: Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=_LINE)] | None = None
    key: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_LINE)] | None = None
    search: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_LINE)] | None = None
    """A text in the payload or the error: for operators."""

    @property
    def wanted(self) -> Wanted:
        return Wanted(self.status, self.type, self.queue, self.worker, self.key, self.search)


class JobsQuestion(Filter):
    after: Annotated[str, StringConstraints(max_length=200)] | None = None
    """`next` of the page before."""
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class AuditQuestion(Question):
    job_id: UUID | None = None
    before: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None
    """`next` of the page before."""
    limit: Annotated[int, Field(ge=1, le=200)] = 100


class Order(Question):
    reason: Reason | None = None
    """For the audit; of a cancelled job, also its error."""


class PriorityOrder(Order):
    priority: Priority


class BulkOrder(Order):
    """One chunk: either these jobs, or those that a filter finds, from a cursor on."""

    action: Action
    ids: Annotated[list[UUID], Field(min_length=1, max_length=CHUNK)] | None = None
    filter: Filter | None = None
    all: bool = False
    """True, with an empty filter: every job there is."""
    after: Annotated[str, StringConstraints(max_length=200)] | None = None
    """`next` of the chunk before."""
    priority: Priority | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.ids is None) == (self.filter is None):
            raise ValueError("give either ids or a filter")
        if self.filter is not None and any(self.filter.wanted) == self.all:
            raise ValueError("a filter says something; to change all jobs, leave it empty and say so: all")
        if self.after is not None and self.filter is None:
            raise ValueError("after goes with a filter")
        if (self.priority is not None) != (self.action is Action.PRIORITY):
            raise ValueError("a priority goes with the action priority")
        return self


class PauseOrder(Order):
    """Of a type, of a queue, or of both."""

    job_type: Name | None = None
    queue: Name | None = None


class PauseMoreOrder(PauseOrder):
    everything: bool = False
    """True, without a type and a queue: nothing is claimed any more."""
