"""Groups of failed attempts. See sql/functions/public/group_errors.sql for how they are counted."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar
from uuid import UUID

from treadle.db.queries.operations import audit_params
from treadle.db.query import Query, Rows, call, statement
from treadle.words.error_group import (
    HOURS,
    ErrorGroup,
    ErrorGroups,
    Example,
    GroupJob,
    GroupJobs,
    Mute,
    VersionCount,
)
from treadle.words.errors import InvalidArgument, UnknownErrorGroup, shown
from treadle.words.naming import int_within, text_within
from treadle.words.status import Status

LIMIT = 500
ORDERS = ("failures", "last_seen", "first_seen")
# Failures that are examined for one page of jobs.
LOOK = 5000
Result = TypeVar("Result")

_LAST = UUID(int=2**128 - 1)
_MOST_MUTED = timedelta(days=366)


class GroupFilter(NamedTuple):
    """A filter for groups; None matches all."""

    job_type: str | None = None
    queue: str | None = None
    muted: bool | None = None
    order: str = "last_seen"
    """failures: the most within the last 24 hours first; last_seen and first_seen: the latest first."""


class Counted(NamedTuple):
    counted: int
    more: bool


class Cursor(NamedTuple):
    """A cursor in the jobs of a group: the failure where a page ends."""

    at: datetime
    id: UUID

    @classmethod
    def read(cls, text: str) -> "Cursor":
        at, _, job = text.partition("~") if isinstance(text, str) else ("", "", "")
        try:
            cursor = cls(datetime.fromisoformat(at), UUID(job))
        except ValueError:
            cursor = None
        if cursor is None or cursor.at.tzinfo is None:
            raise InvalidArgument(f"after must be the cursor of a page, got {shown(text)}")
        return cursor

    @classmethod
    def before(cls, at: datetime) -> "Cursor":
        """Of all failures up to this time."""
        return cls(at, _LAST)

    def __str__(self) -> str:
        return f"{self.at.isoformat()}~{self.id}"


def group_errors(limit: int | None = None, lag: timedelta | None = None) -> Query[Counted]:
    """Count up to `limit` failed attempts. `lag`: those that failed later than this before now are left for the next
    call; None: the default."""
    given: dict[str, object] = {} if limit is None else {"limit": limit}
    if lag is not None:
        given |= {"lag": lag, "pause": timedelta(0)}
    return call("group_errors", given, lambda rows: Counted._make(rows[0]), columns="counted, more")


def prune() -> Query[int]:
    return call("prune_error_groups", {}, lambda rows: int(rows[0][0]))


def register_version(worker_id: str, version: str) -> Query[None]:
    return Query(statement("register_version"), {"worker_id": worker_id, "version": version}, lambda rows: None)


def find_groups(chosen: GroupFilter | None = None, limit: int = 100) -> Query[ErrorGroups]:
    chosen = chosen or GroupFilter()
    if chosen.order not in ORDERS:
        raise InvalidArgument(f"order must be one of {', '.join(ORDERS)}, got {shown(chosen.order)}")
    for value, name in ((chosen.job_type, "job type"), (chosen.queue, "queue")):
        if value is not None:
            text_within(value, 50, name)
    int_within(limit, 1, LIMIT, "limit")

    def read(rows: Rows) -> ErrorGroups:
        groups = _groups(rows)
        return ErrorGroups(rows[0][0], groups[:limit], len(groups) > limit, rows[0][1])

    return _find({**chosen._asdict(), "id": None, "limit": limit + 1}, read)


def get_group(group_id: int) -> Query[tuple[datetime, ErrorGroup]]:
    def read(rows: Rows) -> tuple[datetime, ErrorGroup]:
        for group in _groups(rows):
            return rows[0][0], group
        raise UnknownErrorGroup(group_id)

    return _find({**GroupFilter()._asdict(), "id": checked_id(group_id), "limit": 1}, read)


def get_example(group_id: int) -> Query[Example | None]:
    return Query(
        statement("get_error_example"),
        {"id": group_id},
        lambda rows: Example._make(rows[0]) if rows else None,
        pinned=True,
    )


def get_versions(group_id: int) -> Query[list[VersionCount]]:
    return Query(
        statement("get_error_versions"),
        {"id": group_id},
        lambda rows: [VersionCount._make(row) for row in rows],
        pinned=True,
    )


def get_group_of_job(job_id: UUID) -> Query[int | None]:
    """The group of the job's last failure; None: it has none, or is not counted yet."""
    return Query(
        statement("get_error_group_of_job"), {"id": job_id}, lambda rows: rows[0][0] if rows else None, pinned=True
    )


def find_jobs(group_id: int, status: Status, after: Cursor | None = None, limit: int = 50) -> Query[GroupJobs]:
    """The jobs with this status whose last failure is in the group, the latest failure first."""

    def read(rows: Rows) -> GroupJobs:
        jobs = [
            GroupJob(row[0], row[5], Status(row[6]), row[7], row[8], row[1], row[9], row[10]) for row in rows if row[2]
        ]
        stopped = rows[-1] if rows and (rows[-1][3] or len(jobs) == limit) else None
        return GroupJobs(
            jobs,
            None if stopped is None else str(Cursor(stopped[1], stopped[0])),
            rows[-1][4] if rows else 0,
        )

    params = {
        "group_id": checked_id(group_id),
        "status": status.value,
        "at": after and after.at,
        "id": after and after.id,
        "limit": limit,
        "look": LOOK,
    }
    return Query(statement("find_group_jobs"), params, read, pinned=True)


def mute(
    group_id: int,
    span: timedelta | None = None,
    until_new_version: bool = False,
    actor: str | None = None,
    reason: str | None = None,
) -> Query[bool]:
    """Mute a group: for a time, until a new version fails, or until it is unmuted."""
    if span is not None and not timedelta(0) < span <= _MOST_MUTED:
        raise InvalidArgument(f"errors are muted for more than 0 seconds and at most 366 days, got {span}")
    params = {
        "group_id": checked_id(group_id),
        "muted": True,
        "for": span,
        "until_new_version": until_new_version,
        **audit_params(actor, reason),
    }
    return _mute(params)


def unmute(group_id: int, actor: str | None = None, reason: str | None = None) -> Query[bool]:
    """Returns False if the group is not muted."""
    return _mute({"group_id": checked_id(group_id), "muted": False, **audit_params(actor, reason)})


def count_muted(seconds: float) -> Query[dict[str, int]]:
    """How many attempts failed within the last seconds that belong to muted groups, by job type: what an alarm about
    the failures of a type leaves out."""
    return Query(
        statement("count_muted_errors"),
        {"seconds": seconds},
        lambda rows: {row[0]: int(row[1]) for row in rows},
        pinned=True,
    )


def checked_id(given: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 < given < 2**31:
        raise UnknownErrorGroup(given)
    return given


def _mute(params: dict[str, object]) -> Query[bool]:
    def read(rows: Rows) -> bool:
        if rows[0][0] == "missing":
            raise UnknownErrorGroup(params["group_id"])
        return bool(rows[0][0] == "done")

    return call("mute_errors", params, read)


def _find(params: dict[str, object], read: Callable[[Rows], Result]) -> Query[Result]:
    return Query(statement("find_error_groups"), {**params, "hours": HOURS}, read, pinned=True)


def _groups(rows: Rows) -> list[ErrorGroup]:
    found = []
    for row in rows:
        *group, muted, at, by, reason, until, until_new_version = row[2:]
        if group[0] is not None:
            mute = Mute(at, by, reason, until, until_new_version) if muted else None
            found.append(ErrorGroup._make((*group, mute)))
    return found
