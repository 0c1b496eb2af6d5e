"""Changes of many jobs by filter: counted first, then changed in chunks, each in a transaction of its own.

A chunk that was changed stays changed, even if a later one fails.
"""

import re
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from operator import add
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID, uuid4

from treadle.db.database import Database
from treadle.db.queries import listing as listing_queries
from treadle.db.queries.operations import CHUNK, change_jobs, has_begun
from treadle.db.query import Query
from treadle.db.script import adrive, aiterate, drive, iterate
from treadle.words.changes import Action, ChangeResult
from treadle.words.errors import ActRepeated, InvalidArgument, shown
from treadle.words.listing import BLOCKED, LATER, JobFilter, JobSummary, Listing
from treadle.words.overview import Total
from treadle.words.status import FINISHED, Status

# How many jobs are examined at most to count those that match.
COUNT_LIMIT = 100_000

_FINISHED = (Status.FAILED, Status.CANCELLED, Status.COMPLETED)
_UNFINISHED = (BLOCKED, Status.PENDING, Status.CLAIMED, Status.RUNNING)
# The lists that an action goes through, in this order, if the filter names no status. Blocked jobs come first: when a
# job finishes, the next job with its key moves from the blocked to the pending list, and would be missed.
LISTS: Mapping[Action, Sequence[str]] = {
    Action.RETRY: (Status.FAILED, Status.CANCELLED),
    Action.CANCEL: _UNFINISHED,
    Action.DELETE: (BLOCKED, Status.PENDING, *_FINISHED),
    Action.RUN_NOW: (LATER,),
    Action.PRIORITY: (BLOCKED, Status.PENDING),
}
# The statuses that a filter may name.
_FIT: Mapping[Action, Sequence[str]] = {
    Action.RETRY: _FINISHED,
    Action.CANCEL: (*_UNFINISHED, LATER),
    Action.DELETE: (BLOCKED, Status.PENDING, LATER, *_FINISHED),
    Action.RUN_NOW: (LATER, BLOCKED, Status.PENDING),
    Action.PRIORITY: (*_UNFINISHED, LATER),
}


class Counts(NamedTuple):
    """The jobs that a change has reached so far, by outcome."""

    done: int = 0
    unfit: int = 0
    """The job's status no longer allows the change, or there was nothing to change."""
    busy: int = 0
    """Another transaction had locked the row."""
    missing: int = 0

    @property
    def total(self) -> int:
        return sum(self)


class Confirmed(NamedTuple):
    """What somebody has seen and confirmed. What has come since is not changed."""

    at: int | None = None
    """When the jobs were counted, in microseconds by the database's clock; None: now."""
    jobs: int | None = None
    """How many there were: no more are changed. None: too many to count."""


class Cursor(NamedTuple):
    """Where the next chunk begins: in which list, and after which job."""

    began: int
    """When the change began, or was confirmed, in microseconds by the database's clock."""
    status: str
    left: int | None = None
    """How many jobs may still be changed; None: all."""
    after: str | None = None
    examined: int | None = None
    """How many jobs the search for the previous chunk examined, if it stopped at its limit; else None."""

    @classmethod
    def read(cls, text: str, chosen: Sequence[str]) -> tuple["Cursor", UUID]:
        """The cursor, and the act that it continues."""
        began, status, act, left, after = (*text.split("~", 4), "", "", "", "")[:5]
        if (
            not re.fullmatch("[0-9]{1,17}", began, re.ASCII)
            or status not in chosen
            or not re.fullmatch("[0-9a-f]{32}", act)
            or not re.fullmatch("[0-9]{0,17}", left, re.ASCII)
        ):
            raise InvalidArgument(f"after must be the cursor that the previous chunk returned, got {shown(text)}")
        return cls(int(began), status, int(left) if left else None, after or None), UUID(act)

    def cursor(self, act: UUID) -> str:
        left = "" if self.left is None else self.left
        return f"{self.began}~{self.status}~{act.hex}~{left}~{self.after or ''}"


class Order(NamedTuple):
    """What to change, by whom and why, as which act."""

    action: Action
    actor: str
    reason: str | None
    priority: int | None
    act: UUID
    continues: bool
    """It has been begun: by another chunk."""


_Chunk: TypeAlias = Generator[Query[Any], Any, tuple[Counts, Cursor | None]]


class Change:
    """Changes jobs while it is iterated, with `for` or `async for`, and yields the counts after each chunk."""

    def __init__(
        self,
        database: Database,
        job_filter: JobFilter,
        action: Action,
        actor: str,
        reason: str | None = None,
        priority: int | None = None,
    ) -> None:
        self._database = database
        self._filter = job_filter
        self._lists = lists(action, job_filter)
        self._order = Order(action, actor, reason, priority, uuid4(), True)
        self.confirmed = Confirmed()
        change_jobs(action, (), actor, reason, priority)  # checks the arguments before anything is changed

    def __iter__(self) -> Iterator[Counts]:
        return iterate(self._script(), self._database.run)

    def __aiter__(self) -> AsyncIterator[Counts]:
        return aiterate(self._script(), self._database.arun)

    def _script(self) -> Generator[Query[Any] | Counts, Any, None]:
        counts = Counts()
        cursor: Cursor | None = yield from _first_cursor(self._lists, self.confirmed)
        while cursor is not None:
            chunk, cursor = yield from _chunk(self._filter, self._lists, self._order, cursor)
            counts = Counts._make(map(add, counts, chunk))
            yield counts


async def achange_chunk(
    database: Database,
    job_filter: JobFilter,
    action: Action,
    actor: str,
    reason: str | None = None,
    priority: int | None = None,
    after: str | None = None,
    act: UUID | None = None,
    confirmed: Confirmed = Confirmed(),  # noqa: B008 - it cannot be changed
) -> tuple[Counts, str | None]:
    """Change one chunk. Returns its counts and the cursor of the next chunk, or None if this was the last.

    Raises ActRepeated if the first chunk of `act` was changed before."""
    chosen = lists(action, job_filter)
    change_jobs(action, (), actor, reason, priority)
    cursor = None
    if after is not None:
        cursor, act = Cursor.read(after, chosen)
    order = Order(action, actor, reason, priority, act or uuid4(), after is not None)
    counts, following = await adrive(_next_chunk(job_filter, chosen, order, cursor or confirmed), database.arun)
    return counts, None if following is None else following.cursor(order.act)


def _first_cursor(chosen: Sequence[str], confirmed: Confirmed) -> Generator[Query[Any], Any, Cursor]:
    began: int = confirmed.at if confirmed.at is not None else (yield listing_queries.get_clock())
    return Cursor(began, chosen[0], confirmed.jobs)


def _next_chunk(job_filter: JobFilter, chosen: Sequence[str], order: Order, cursor: Cursor | Confirmed) -> _Chunk:
    if isinstance(cursor, Confirmed):
        cursor = yield from _first_cursor(chosen, cursor)
    counts, following = yield from _chunk(job_filter, chosen, order, cursor)
    # Skip empty lists at once, to save the caller round trips. A search that stopped at its limit took long enough.
    while following is not None and not counts.total and following.examined is None:
        counts, following = yield from _chunk(job_filter, chosen, order, following)
    if not order.continues and not counts.total and (yield has_begun(order.act)):
        raise ActRepeated
    return counts, following


def _chunk(job_filter: JobFilter, chosen: Sequence[str], order: Order, cursor: Cursor) -> _Chunk:
    after = cursor.after
    if after is None and cursor.status in FINISHED:
        # Leave out jobs that finished since the change began: one may have been changed here and finished again.
        after = listing_queries.cursor_at(Status(cursor.status), cursor.began)
    page: Listing = yield listing_queries.find_jobs(job_filter._replace(status=cursor.status), after, CHUNK)
    ids = [job.id for job in page.jobs if job.priority != order.priority and not _is_newer(job, cursor.began)]
    ids = ids[: cursor.left]
    counts = Counts()
    if ids:
        done: list[ChangeResult] = yield change_jobs(order.action, ids, *order[1:])
        counts = counted(done)
    left = None if cursor.left is None else cursor.left - len(ids)
    if left == 0:
        return counts, None
    if page.next is not None:
        return counts, Cursor(cursor.began, cursor.status, left, page.next, page.examined)
    following = chosen.index(cursor.status) + 1
    return counts, Cursor(cursor.began, chosen[following], left) if following < len(chosen) else None


def counted(done: Sequence[ChangeResult]) -> Counts:
    outcomes = [each.outcome for each in done]
    if "repeated" in outcomes:
        raise ActRepeated
    return Counts._make(map(outcomes.count, Counts._fields))


def count(database: Database, job_filter: JobFilter, action: Action | None = None) -> Total:
    """Count the matching jobs that the action applies to; not exact if there are too many to examine."""
    return drive(_count(job_filter, action), database.run)


def count_to_confirm(database: Database, job_filter: JobFilter, action: Action) -> tuple[Total, Confirmed]:
    """Count them for somebody who will confirm the change."""
    return drive(_count_to_confirm(job_filter, action), database.run)


async def acount_to_confirm(database: Database, job_filter: JobFilter, action: Action) -> tuple[Total, Confirmed]:
    return await adrive(_count_to_confirm(job_filter, action), database.arun)


def lists(action: Action, job_filter: JobFilter) -> Sequence[str]:
    """The lists of jobs that a change goes through."""
    if job_filter.status is None:
        if job_filter.since is not None or job_filter.until is not None:
            # Without a status they mean the time of enqueueing, but the lists of finished jobs are in another order.
            raise InvalidArgument(
                f"to {action.value.replace('_', ' ')} jobs by time, give a status as well, one of {_fit(action)}"
            )
        return LISTS[action]
    if job_filter.status not in _FIT[action]:
        raise InvalidArgument(
            f"to {action.value.replace('_', ' ')} jobs, their status must be one of {_fit(action)}, "
            f"got {job_filter.status!r}"
        )
    return (job_filter.status,)


def _fit(action: Action) -> str:
    return ", ".join(_FIT[action])


def _count_to_confirm(job_filter: JobFilter, action: Action) -> Generator[Query[Any], Any, tuple[Total, Confirmed]]:
    at: int = yield listing_queries.get_clock()
    total = yield from _count(job_filter, action)
    return total, Confirmed(at, total.jobs if total.exact else None)


def _count(job_filter: JobFilter, action: Action | None) -> Generator[Query[listing_queries.MatchCount], Any, Total]:
    found = examined = 0
    for status in (job_filter.status,) if action is None else lists(action, job_filter):
        after = None
        while True:
            if examined >= COUNT_LIMIT:
                return Total(found, exact=False)
            page: listing_queries.MatchCount = yield listing_queries.count_matching_jobs(
                job_filter._replace(status=status), after
            )
            found, examined, after = found + page.found, examined + page.examined, page.next
            if after is None:
                break
    return Total(found, exact=True)


def _is_newer(job: JobSummary, began: int) -> bool:
    """Jobs created since the change began are left out: if jobs were created faster than they are changed, the change
    would never end. The time is in the job's id, or for ids that were not made by Treadle in created_at."""
    return job.id.int >> 80 > began // 1000 and job.created_at.timestamp() * 1_000_000 > began
