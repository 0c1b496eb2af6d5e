"""Changes of many jobs by filter: counted before, then in chunks, each a transaction of its own.

What to do is a generator that does no I/O, as in streams.py: it asks for queries, and hands out how far it is. A chunk
that was changed stays changed, however the rest ends.
"""

from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from treadle.db import listing
from treadle.db.operate import CHUNK, operate
from treadle.db.query import Query
from treadle.words.errors import InvalidArgument
from treadle.words.listing import HELD, LATER, Listed, Listing, Wanted
from treadle.words.operator import Action, Operated
from treadle.words.overview import Total
from treadle.words.status import FINISHED, Status

if TYPE_CHECKING:
    from treadle.app.treadle import Treadle

# Jobs that are looked at, at most, to count those that are wanted.
COUNT_LOOK = 100_000

_ENDED = (Status.FAILED, Status.CANCELLED, Status.COMPLETED)
_ALIVE = (HELD, Status.PENDING, Status.CLAIMED, Status.RUNNING)
# Which lists an action goes through if no status is asked for, one after the other. Held ones come first: the end of
# a job lets the next one of its key go, which would slip out of a list that has not been read into one that has.
LISTS: Mapping[Action, Sequence[str]] = {
    Action.RETRY: (Status.FAILED, Status.CANCELLED),
    Action.CANCEL: _ALIVE,
    Action.DELETE: (HELD, Status.PENDING, *_ENDED),
    Action.RUN_NOW: (LATER,),
    Action.PRIORITY: (HELD, Status.PENDING),
}
# Which may be asked for.
_FIT: Mapping[Action, Sequence[str]] = {
    Action.RETRY: _ENDED,
    Action.CANCEL: (*_ALIVE, LATER),
    Action.DELETE: (HELD, Status.PENDING, LATER, *_ENDED),
    Action.RUN_NOW: (LATER, HELD, Status.PENDING),
    Action.PRIORITY: (*_ALIVE, LATER),
}


class Tally(NamedTuple):
    """How far a change of many jobs has come."""

    done: int = 0
    unfit: int = 0
    """Another status by now, or nothing to change."""
    busy: int = 0
    """Somebody held the row."""
    missing: int = 0

    @property
    def met(self) -> int:
        return sum(self)


Script: TypeAlias = Generator[Query[Any] | Tally, Any, None]


class Change:
    """Changes many jobs while it is gone through, with `for` or with `async for`; gives the tally after each chunk."""

    def __init__(
        self,
        app: "Treadle",
        wanted: Wanted,
        action: Action,
        actor: str,
        reason: str | None = None,
        priority: int | None = None,
    ) -> None:
        self._database = app.database
        self._schema = app.schema
        self._wanted = wanted
        self._lists = lists(action, wanted)
        self._order = (action, actor, reason, priority)
        operate(self._schema, action, (), actor, reason, priority)  # says what is wrong before anything is changed

    def __iter__(self) -> Iterator[Tally]:
        script, answer = self._script(), None
        while True:
            try:
                asked = script.send(answer)
            except StopIteration:
                return
            answer = None
            if isinstance(asked, Tally):
                yield asked
            else:
                answer = self._database.run(asked)

    async def __aiter__(self) -> AsyncIterator[Tally]:
        script, answer = self._script(), None
        while True:
            try:
                asked = script.send(answer)
            except StopIteration:
                return
            answer = None
            if isinstance(asked, Tally):
                yield asked
            else:
                answer = await self._database.arun(asked)

    def _script(self) -> Script:
        action, actor, reason, priority = self._order
        began: int = yield listing.clock(self._schema)
        tally = Tally()
        for status in self._lists:
            wanted = self._wanted._replace(status=status)
            # What ended since is not meant: it may be one that was changed here, and ended again.
            after = listing.ended_by(Status(status), began) if status in FINISHED else None
            while True:
                page: Listing = yield listing.find_jobs(self._schema, wanted, after, CHUNK)
                ids = [job.id for job in page.jobs if job.priority != priority and not _came_after(job, began)]
                if ids:
                    done: list[Operated] = yield operate(self._schema, action, ids, actor, reason, priority)
                    outcomes = [each.outcome for each in done]
                    tally = Tally._make(
                        count + outcomes.count(name) for name, count in zip(Tally._fields, tally, strict=True)
                    )
                yield tally
                if page.next is None:
                    break
                after = page.next


def count(app: "Treadle", wanted: Wanted, action: Action | None = None) -> Total:
    """How many there are, of those that the action fits; not exact if that is too many to look at."""
    counting, answer = _count(app.schema, wanted, action), None
    while True:
        try:
            asked = counting.send(answer)
        except StopIteration as end:
            return _total(end)
        answer = app.database.run(asked)


async def acount(app: "Treadle", wanted: Wanted, action: Action | None = None) -> Total:
    counting, answer = _count(app.schema, wanted, action), None
    while True:
        try:
            asked = counting.send(answer)
        except StopIteration as end:
            return _total(end)
        answer = await app.database.arun(asked)


def lists(action: Action, wanted: Wanted) -> Sequence[str]:
    """The lists that a change goes through."""
    if wanted.status is None:
        return LISTS[action]
    if wanted.status not in _FIT[action]:
        raise InvalidArgument(
            f"to {action.value.replace('_', ' ')} jobs, their status must be one of {', '.join(_FIT[action])}, "
            f"got {wanted.status!r}"
        )
    return (wanted.status,)


def _count(schema: str, wanted: Wanted, action: Action | None) -> Generator[Query[listing.Tallied], Any, Total]:
    found = looked = 0
    for status in (wanted.status,) if action is None else lists(action, wanted):
        after = None
        while True:
            if looked >= COUNT_LOOK:
                return Total(found, exact=False)
            page: listing.Tallied = yield listing.tally_jobs(schema, wanted._replace(status=status), after)
            found, looked, after = found + page.found, looked + page.looked, page.next
            if after is None:
                break
    return Total(found, exact=True)


def _total(end: StopIteration) -> Total:
    total: Total = end.value
    return total


def _came_after(job: Listed, began: int) -> bool:
    """Whoever enqueues faster than this changes would keep it busy for ever. The time of a job is in its id, unless
    somebody made it by hand; then it is in created_at."""
    return job.id.int >> 80 > began // 1000 and job.created_at.timestamp() * 1_000_000 > began
