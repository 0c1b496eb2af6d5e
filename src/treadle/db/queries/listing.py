"""Lists of jobs, page by page, at a cost that does not grow with the table: see sql/functions/public/find_jobs.sql."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from treadle.db.query import Query, Rows, call, statement
from treadle.words.errors import InvalidArgument, shown
from treadle.words.listing import BLOCKED, LATER, JobFilter, JobSummary, Listing
from treadle.words.moment import made_at
from treadle.words.naming import text_within
from treadle.words.status import FINISHED, Status

# A page examines at most this many jobs, for about this long. Then it returns a cursor to continue from.
EXAMINED_LIMIT = 20_000
SEARCH_TIME: timedelta | None = timedelta(milliseconds=100)
LIMIT = 1000

_STATUSES = (*(status.value for status in Status), LATER, BLOCKED)
# idx_jobs_key covers jobs with these statuses.
_LIVE = (Status.PENDING, Status.CLAIMED, Status.RUNNING, LATER, BLOCKED)
_CURSOR = re.compile(r"([a-z-]+)/(-?\d{1,10})?/(-?\d{1,19}|-?infinity)?/([0-9a-f-]{36})", re.ASCII)
# Sorts after every other job with the same time.
_END = UUID(int=2**128 - 1)
_DAY = 86_400_000_000
_NO_LIMIT = 1_000_000_000
# The range of timestamptz, in microseconds since 1970.
_FIRST, _LAST = -210_866_803_200_000_000, 9_224_318_015_999_999_999


class MatchCount(NamedTuple):
    """How many of the examined jobs match, and the cursor to continue from; None: all were examined."""

    found: int
    examined: int
    next: str | None


class Cursor(NamedTuple):
    """A cursor: the order of the list, and the position in it where a page ends."""

    order: str
    rank: int | None
    at: str | None
    """Microseconds since 1970; or infinity, which the column allows."""
    id: UUID

    @classmethod
    def read(cls, after: str, order: str) -> "Cursor":
        parts = _CURSOR.fullmatch(after) if isinstance(after, str) else None
        if parts is None:
            raise InvalidArgument(f"after must be the cursor of a page, got {shown(after)}")
        if parts[1] != order:
            raise InvalidArgument(
                f"after must be a cursor of this list ({order}), got one of another ({parts[1]}); "
                "begin at the first page"
            )
        try:
            cursor = cls(order, int(parts[2]) if parts[2] else None, parts[3], UUID(parts[4]))
        except ValueError:
            raise InvalidArgument(f"after must be the cursor of a page, got {shown(after)}") from None
        # Each order has its own columns, and the server would reject a number out of range.
        needs_rank, needs_at = _columns(order)
        if (
            (cursor.rank is not None) != needs_rank
            or (cursor.at is not None) != needs_at
            or abs(cursor.rank or 0) >= 2**31
            or (cursor.finite and not _FIRST <= int(cursor.at or 0) <= _LAST)
        ):
            raise InvalidArgument(f"after must be the cursor of a page, got {shown(after)}")
        return cursor

    @property
    def finite(self) -> bool:
        return self.at is not None and not self.at.endswith("infinity")

    @property
    def moment(self) -> str | None:
        """As an interval since 1970, to the microsecond."""
        if not self.finite:
            return self.at
        days, rest = divmod(int(self.at or 0), _DAY)
        # Seconds and microseconds apart: PostgreSQL 14 reads each number of an interval as 32 bits. The sign, because a
        # session with IntervalStyle = sql_standard would take that of the days for the time as well.
        seconds, microseconds = divmod(rest, 1_000_000)
        return f"{days} days +{seconds} seconds +{microseconds} microseconds"

    def __str__(self) -> str:
        return f"{self.order}/{'' if self.rank is None else self.rank}/{self.at or ''}/{self.id}"


def find_jobs(
    job_filter: JobFilter, after: str | None = None, limit: int = 50, *, payloads: bool = True
) -> Query[Listing]:
    """The page after a cursor. The order depends on the status: finished jobs by the time they finished, claimed and
    running ones by the time of the claim (the latest first), pending ones as they will be claimed; without a status,
    the latest enqueued first. Without `payloads`, a text is searched in errors and ids only."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LIMIT:
        raise InvalidArgument(f"limit must be 1 to {LIMIT}, got {shown(limit)}")
    order, params = _params(job_filter, after)

    def read(rows: Rows) -> Listing:
        found = [row for row in rows if row[3]]
        jobs = [_listed(row) for row in found[:limit]]
        if len(found) > limit:
            end = found[limit - 1]
            return Listing(jobs, _cursor(order, end), None, end[5], _reached(order, end))
        stopped = next((row for row in rows if row[4]), None)
        if stopped is None:
            return Listing(jobs, None)
        examined = stopped[5] if len(jobs) < limit else None
        return Listing(jobs, _cursor(order, stopped), examined, stopped[5], _reached(order, stopped))

    return Query(_found("find_jobs"), {**params, "limit": limit, "payloads": payloads}, read, pinned=True)


def find_jobs_by_id(ids: Sequence[UUID]) -> Query[list[JobSummary]]:
    """Those of these jobs that exist, as rows of a list."""

    def read(rows: Rows) -> list[JobSummary]:
        return [_listed(row) for row in rows if row[6] is not None]

    return Query(statement("found_by_id") + statement("find_jobs"), {"ids": list(ids)}, read)


def count_matching_jobs(job_filter: JobFilter, after: str | None = None) -> Query[MatchCount]:
    """How many of the next EXAMINED_LIMIT jobs match."""
    order, params = _params(job_filter, after)

    def read(rows: Rows) -> MatchCount:
        ((count, examined, stopped, *cursor),) = rows
        return MatchCount(count, examined or 0, _cursor(order, tuple(cursor)) if stopped else None)

    given = {**params, "limit": _NO_LIMIT, "payloads": True}
    return Query(_found("count_matching_jobs"), given, read, pinned=True)


def estimate_jobs(status: str | None) -> Query[int | None]:
    """About how many jobs have this status, by the statistics of the database; None if those do not say."""
    return Query(statement("estimate_jobs"), {"status": status}, lambda rows: rows[0][0])


def is_whole_list(job_filter: JobFilter) -> bool:
    """Whether estimate_jobs() says how many jobs this filter examines."""
    partial = (job_filter.since, job_filter.until, job_filter.key)
    return not any(partial) and job_filter.status not in (LATER, BLOCKED)


def has_payload_index(path: Sequence[str]) -> Query[bool]:
    """Whether a search by this path in payloads can use an index."""
    return call("has_payload_index", {"path": list(path)}, lambda rows: bool(rows[0][0]))


def may_read_payloads() -> Query[bool]:
    """Whether this database role may read payloads. If not, a search does not find what is in them."""
    return Query(statement("may_read_payloads"), {}, lambda rows: bool(rows[0][0]))


def cursor_at(status: Status, moment: int) -> str:
    """The cursor of the page of jobs that finished at this time, in microseconds since 1970, or before."""
    return str(Cursor(status.value, None, str(moment), _END))


def get_clock() -> Query[int]:
    """The database's time, in microseconds since 1970."""
    return Query(statement("get_clock"), {}, lambda rows: int(rows[0][0]))


def _found(name: str) -> str:
    return statement("found_jobs") + statement(name)


def _params(job_filter: JobFilter, after: str | None) -> tuple[str, dict[str, object]]:
    job_filter = _checked(job_filter)
    order = job_filter.status or "all"
    if job_filter.key is not None and job_filter.status in _LIVE:
        order += "-key"
    cursor = None if after is None else Cursor.read(after, order)
    filters = job_filter._asdict()
    where = filters.pop("where")
    return order, {
        **filters,
        "path": where and list(where.path),
        "value": where and where.value,
        "also": where and where.also_as_json,
        "exact": _as_id(job_filter.search) if cursor is None or cursor.id == _END else None,
        "rank": cursor and cursor.rank,
        "at": cursor and cursor.moment,
        "id": cursor and cursor.id,
        "look": EXAMINED_LIMIT,
        "patience": SEARCH_TIME,
    }


def _checked(job_filter: JobFilter) -> JobFilter:
    if job_filter.status is not None and job_filter.status not in _STATUSES:
        raise InvalidArgument(f"status must be one of {', '.join(_STATUSES)}, got {shown(job_filter.status)}")
    for value, limit, name in (
        (job_filter.job_type, 50, "job type"),
        (job_filter.queue, 50, "queue"),
        (job_filter.worker_id, 100, "worker"),
        (job_filter.key, 200, "key"),
        (job_filter.search, 200, "search"),
    ):
        if value is not None:
            text_within(value, limit, name)
    since, until = job_filter.since, job_filter.until
    if since is not None and until is not None and since >= until:
        raise InvalidArgument(f"since must be before until, got {since.isoformat()} and {until.isoformat()}")
    return job_filter if job_filter.status is None else job_filter._replace(status=str(job_filter.status))


def _columns(order: str) -> tuple[bool, bool]:
    """Whether a cursor of this order has a rank, and a time."""
    by_key = order.endswith("-key")
    return by_key or order in (Status.PENDING, LATER), not by_key and order not in ("all", BLOCKED)


def _as_id(search: str | None) -> UUID | None:
    try:
        return UUID(search)
    except (TypeError, ValueError):
        return None


def _cursor(order: str, row: tuple[object, ...]) -> str:
    job_id, rank, at = row[:3]
    return str(Cursor._make((order, rank, at, job_id)))


def _reached(order: str, row: tuple[object, ...]) -> datetime | None:
    job_id, _, at = row[:3]
    if order in ("all", BLOCKED) and isinstance(job_id, UUID):
        return made_at(job_id.int)
    if order not in FINISHED or not isinstance(at, str) or at.endswith("infinity"):
        return None
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(at))
    except OverflowError:
        return None


def _listed(row: tuple[object, ...]) -> JobSummary:
    job_type, queue, priority, status, *rest = row[6:]
    return JobSummary._make((row[0], job_type, queue, priority, Status(str(status)), *rest))
