"""Groups of failed attempts: the same job type, exception and message, apart from what differs each time."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from treadle.words.status import Status

HOURS = 24
"""How many hours the trend has."""


class Mute(NamedTuple):
    """The group is counted and shown, but is no alarm."""

    at: datetime
    by: str | None
    reason: str | None
    until: datetime | None
    """None: until it is unmuted, or a new version fails."""
    until_new_version: bool
    """It ends when a version of the application fails that was not known when the group was muted."""


class ErrorGroup(NamedTuple):
    """Failed attempts with the same job type, exception and message, apart from what differs each time."""

    id: int
    job_type: str
    exception: str
    """The class of the exception; empty if the handler raised none, as when it timed out or its process died."""
    message: str
    """With placeholders such as `<number>` for what differs from one failure to the next."""
    failures: int
    """Failed attempts, including those that were retried."""
    first_seen: datetime
    last_seen: datetime
    queues: list[str]
    versions: list[str]
    """The versions of the application in which it failed, the latest first; at most five."""
    trend: list[int]
    """Failed attempts per hour: the last 24 hours, the current one last."""
    muted: Mute | None

    @property
    def last_day(self) -> int:
        """Failed attempts within the last 24 hours."""
        return sum(self.trend)

    @property
    def title(self) -> str:
        return ": ".join(filter(None, (self.exception, self.message)))


class ErrorGroups(NamedTuple):
    at: datetime
    """By the database's clock."""
    groups: list[ErrorGroup]
    more: bool
    """There are more groups than are listed."""
    muted: int
    """How many of those that match are muted, whether or not they are listed."""


class VersionCount(NamedTuple):
    version: str
    failures: int
    first_seen: datetime
    last_seen: datetime


class Example(NamedTuple):
    """One failed attempt of the group, a recent one."""

    job_id: UUID
    failed_at: datetime
    error: str
    traceback: str | None


class GroupJob(NamedTuple):
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


class GroupJobs(NamedTuple):
    jobs: list[GroupJob]
    next: str | None
    """The cursor of the next page; None: this is the last one."""
    examined: int
    """How many failures were examined."""


class GroupDetails(NamedTuple):
    at: datetime
    """By the database's clock."""
    group: ErrorGroup
    versions: list[VersionCount]
    """The latest first."""
    example: Example | None
    failed: GroupJobs
    """Its jobs that have failed."""
    pending: GroupJobs
    """Its jobs that wait for another attempt."""
