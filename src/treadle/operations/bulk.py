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
from treadle.db.queries.operations import CHUNK, change_jobs
from treadle.db.query import Query
from treadle.db.script import adrive, aiterate, drive, iterate
from treadle.words.changes import Action, ChangeResult
from treadle.words.errors import ActRepeated, InvalidArgument, shown
from treadle.words.listing import HELD, LATER, JobFilter, JobSummary, Listing
from treadle.words.overview import Total
from treadle.words.status import FINISHED, Status

# How many jobs are examined at most to count those that match.
COUNT_LIMIT = 100_000

_FINISHED = (Status.FAILED, Status.CANCELLED, Status.COMPLETED)
_UNFINISHED = (HELD, Status.PENDING, Status.CLAIMED, Status.RUNNING)
# The lists that an action goes through, in this order, if the filter names no status. Blocked jobs come first: when a
# job finishes, the next job with its key moves from the blocked to the pending list, and would be missed.
LISTS: Mapping[Action, Sequence[str]] = {
    Action.RETRY: (Status.FAILED, Status.CANCELLED),
    Action.CANCEL: _UNFINISHED,
    Action.DELETE: (HELD, Status.PENDING, *_FINISHED),
    Action.RUN_NOW: (LATER,),
    Action.PRIORITY: (HELD, Status.PENDING),
}
# The statuses that a filter may name.
_FIT: Mapping[Action, Sequence[str]] = {
    Action.RETRY: _FINISHED,
    Action.CANCEL: (*_UNFINISHED, LATER),
    Action.DELETE: (HELD, Status.PENDING, LATER, *_FINISHED),
    Action.RUN_NOW: (LATER, HELD, Status.PENDING),
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


class Place(NamedTuple):
    """Where the next chunk begins: in which list, and after which job."""

    began: int
    """When the change began, in microseconds by the database's clock."""
    status: str
    after: str | None = None
    examined: int | None = None
    """How many jobs the search for the previous chunk examined, if it stopped at its limit; else None."""

    @classmethod
    def read(cls, text: str, chosen: Sequence[str]) -> tuple["Place", UUID]:
        """The place in a cursor, and the act that it continues."""
        began, status, act, after = (*text.split("~", 3), "", "", "")[:4]
        if (
            not (began.isascii() and began.isdigit() and len(began) <= 17)
            or status not in chosen
            or not re.fullmatch("[0-9a-f]{32}", act)
        ):
            raise InvalidArgument(f"after must be the cursor that the previous chunk returned, got {shown(text)}")
        return cls(int(began), status, after or None), UUID(act)

    def cursor(self, act: UUID) -> str:
        return f"{self.began}~{self.status}~{act.hex}~{self.after or ''}"


class Order(NamedTuple):
    """What to change, by whom and why, as which act."""

    action: Action
    actor: str
    reason: str | None
    priority: int | None
    act: UUID
    continues: bool
    """It has been begun: by another chunk."""


_Chunk: TypeAlias = Generator[Query[Any], Any, tuple[Counts, Place | None]]


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
        change_jobs(action, (), actor, reason, priority)  # checks the arguments before anything is changed

    def __iter__(self) -> Iterator[Counts]:
        return iterate(self._script(), self._database.run)

    def __aiter__(self) -> AsyncIterator[Counts]:
        return aiterate(self._script(), self._database.arun)

    def _script(self) -> Generator[Query[Any] | Counts, Any, None]:
        began: int = yield listing_queries.get_clock()
        counts = Counts()
        place: Place | None = Place(began, self._lists[0])
        while place is not None:
            chunk, place = yield from _chunk(self._filter, self._lists, self._order, place)
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
) -> tuple[Counts, str | None]:
    """Change one chunk. Returns its counts and the cursor of the next chunk, or None if this was the last.

    Raises ActRepeated if the first chunk of `act` was changed before."""
    chosen = lists(action, job_filter)
    change_jobs(action, (), actor, reason, priority)
    place = None
    if after is not None:
        place, act = Place.read(after, chosen)
    order = Order(action, actor, reason, priority, act or uuid4(), after is not None)
    counts, following = await adrive(_next_chunk(job_filter, chosen, order, place), database.arun)
    return counts, None if following is None else following.cursor(order.act)


def _next_chunk(job_filter: JobFilter, chosen: Sequence[str], order: Order, place: Place | None) -> _Chunk:
    if place is None:
        place = Place((yield listing_queries.get_clock()), chosen[0])
    counts, following = yield from _chunk(job_filter, chosen, order, place)
    # Skip empty lists at once, to save the caller round trips. A search that stopped at its limit took long enough.
    while following is not None and not counts.total and following.examined is None:
        counts, following = yield from _chunk(job_filter, chosen, order, following)
    return counts, following


def _chunk(job_filter: JobFilter, chosen: Sequence[str], order: Order, place: Place) -> _Chunk:
    after = place.after
    if after is None and place.status in FINISHED:
        # Leave out jobs that finished since the change began: one may have been changed here and finished again.
        after = listing_queries.cursor_at(Status(place.status), place.began)
    page: Listing = yield listing_queries.find_jobs(job_filter._replace(status=place.status), after, CHUNK)
    ids = [job.id for job in page.jobs if job.priority != order.priority and not _is_newer(job, place.began)]
    counts = Counts()
    if ids:
        done: list[ChangeResult] = yield change_jobs(order.action, ids, *order[1:])
        counts = counted(done)
    if page.next is not None:
        return counts, Place(place.began, place.status, page.next, page.examined)
    following = chosen.index(place.status) + 1
    return counts, Place(place.began, chosen[following]) if following < len(chosen) else None


def counted(done: Sequence[ChangeResult]) -> Counts:
    outcomes = [each.outcome for each in done]
    if "repeated" in outcomes:
        raise ActRepeated
    return Counts._make(map(outcomes.count, Counts._fields))


def count(database: Database, job_filter: JobFilter, action: Action | None = None) -> Total:
    """Count the matching jobs that the action applies to; not exact if there are too many to examine."""
    return drive(_count(job_filter, action), database.run)


async def acount(database: Database, job_filter: JobFilter, action: Action | None = None) -> Total:
    return await adrive(_count(job_filter, action), database.arun)


def lists(action: Action, job_filter: JobFilter) -> Sequence[str]:
    """The lists of jobs that a change goes through."""
    if job_filter.status is None:
        return LISTS[action]
    if job_filter.status not in _FIT[action]:
        raise InvalidArgument(
            f"to {action.value.replace('_', ' ')} jobs, their status must be one of {', '.join(_FIT[action])}, "
            f"got {job_filter.status!r}"
        )
    return (job_filter.status,)


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
