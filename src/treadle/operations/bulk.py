"""Changes of many jobs by filter: counted before, then in chunks, each a transaction of its own.

What to do is a generator that does no I/O, as in streams.py: it asks for queries, and hands out how far it is. A chunk
that was changed stays changed, however the rest ends.
"""

from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from treadle.db.queries import listing
from treadle.db.queries.operations import CHUNK, operate
from treadle.db.query import Query
from treadle.words.changes import Action, ChangeResult
from treadle.words.errors import InvalidArgument, shown
from treadle.words.listing import HELD, LATER, Listed, Listing, Wanted
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


class Place(NamedTuple):
    """How far it has come: in which list, and since when."""

    began: int
    status: str
    after: str | None = None
    looked: int | None = None
    """The look stopped before the page was full."""

    @classmethod
    def read(cls, text: str, chosen: Sequence[str]) -> "Place":
        began, _, rest = text.partition("~")
        status, _, after = rest.partition("~")
        if not (began.isascii() and began.isdigit() and len(began) <= 17) or status not in chosen:
            raise InvalidArgument(f"after must be what the chunk before gave, got {shown(text)}")
        return cls(int(began), status, after or None)

    def __str__(self) -> str:
        return f"{self.began}~{self.status}~{self.after or ''}"


Order: TypeAlias = tuple[Action, str, str | None, int | None]
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
        self._wanted = wanted
        self._lists = lists(action, wanted)
        self._order = (action, actor, reason, priority)
        operate(action, (), actor, reason, priority)  # says what is wrong before anything is changed

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
        began: int = yield listing.get_clock()
        tally = Tally()
        place: Place | None = Place(began, self._lists[0])
        while place is not None:
            some, place = yield from _chunk(self._wanted, self._lists, self._order, place)
            tally = Tally._make(map(add, tally, some))
            yield tally


async def achange_some(
    app: "Treadle",
    wanted: Wanted,
    action: Action,
    actor: str,
    reason: str | None = None,
    priority: int | None = None,
    after: str | None = None,
) -> tuple[Tally, str | None]:
    """One chunk, for who asks again for the next one with the text that this gives; None: it was the last."""
    chosen, order = lists(action, wanted), (action, actor, reason, priority)
    operate(action, (), actor, reason, priority)
    if after is None:
        place: Place | None = Place(await app.database.arun(listing.get_clock()), chosen[0])
    else:
        place = Place.read(after, chosen)
    tally = Tally()
    # Lists may be empty, and nobody wants to be asked to go on for that; a look that stopped halfway is long enough.
    while place is not None and not tally.met and place.looked is None:
        script, answer = _chunk(wanted, chosen, order, place), None
        try:
            while True:
                answer = await app.database.arun(script.send(answer))
        except StopIteration as end:
            tally, place = end.value
    return tally, None if place is None else str(place)


def _chunk(
    wanted: Wanted, chosen: Sequence[str], order: Order, place: Place
) -> Generator[Query[Any], Any, tuple[Tally, Place | None]]:
    action, actor, reason, priority = order
    after = place.after
    if after is None and place.status in FINISHED:
        # What ended since is not meant: it may be one that was changed here, and ended again.
        after = listing.cursor_at(Status(place.status), place.began)
    page: Listing = yield listing.find_jobs(wanted._replace(status=place.status), after, CHUNK)
    ids = [job.id for job in page.jobs if job.priority != priority and not _came_after(job, place.began)]
    tally = Tally()
    if ids:
        done: list[ChangeResult] = yield operate(action, ids, actor, reason, priority)
        outcomes = [each.outcome for each in done]
        tally = Tally._make(map(outcomes.count, Tally._fields))
    if page.next is not None:
        return tally, Place(place.began, place.status, page.next, page.looked)
    following = chosen.index(place.status) + 1
    return tally, Place(place.began, chosen[following]) if following < len(chosen) else None


def count(app: "Treadle", wanted: Wanted, action: Action | None = None) -> Total:
    """How many there are, of those that the action fits; not exact if that is too many to look at."""
    counting, answer = _count(wanted, action), None
    while True:
        try:
            asked = counting.send(answer)
        except StopIteration as end:
            return _total(end)
        answer = app.database.run(asked)


async def acount(app: "Treadle", wanted: Wanted, action: Action | None = None) -> Total:
    counting, answer = _count(wanted, action), None
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


def _count(wanted: Wanted, action: Action | None) -> Generator[Query[listing.MatchCount], Any, Total]:
    found = looked = 0
    for status in (wanted.status,) if action is None else lists(action, wanted):
        after = None
        while True:
            if looked >= COUNT_LOOK:
                return Total(found, exact=False)
            page: listing.MatchCount = yield listing.count_matching_jobs(wanted._replace(status=status), after)
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
