"""Groups of failed attempts: what they are, and changes of all jobs of one, in chunks as in bulk.py."""

import re
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from operator import add
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID, uuid4

from treadle.db.database import Database
from treadle.db.queries import error_groups as group_queries
from treadle.db.queries import listing as listing_queries
from treadle.db.queries.error_groups import Cursor, GroupFilter
from treadle.db.queries.operations import CHUNK, change_jobs
from treadle.db.query import Query
from treadle.db.script import adrive, aiterate, drive, iterate
from treadle.operations.bulk import COUNT_LIMIT, Counts, counted
from treadle.words.changes import Action, ChangeResult
from treadle.words.error_group import ErrorGroups, GroupDetails, GroupJobs
from treadle.words.errors import InvalidArgument, shown
from treadle.words.overview import Total
from treadle.words.status import Status

# Of the jobs of a group, how many its page lists.
JOBS = 20
# The jobs that an action applies to: to cancel is for those that wait for another attempt.
STATUSES: Mapping[Action, Status] = {Action.RETRY: Status.FAILED, Action.CANCEL: Status.PENDING}

_Chunk: TypeAlias = Generator[Query[Any], Any, tuple[Counts, Cursor | None]]


class Order(NamedTuple):
    group_id: int
    action: Action
    actor: str
    reason: str | None
    act: UUID
    """What the audit calls it: it is begun once, and later chunks continue it."""
    continues: bool

    def checked(self) -> "Order":
        if self.action not in STATUSES:
            raise InvalidArgument(f"the jobs of a group can be retried or cancelled, got {self.action.value}")
        group_queries.checked_id(self.group_id)
        change_jobs(self.action, (), self.actor, self.reason)
        return self._replace(reason=self.reason or f"error group {self.group_id}")


def get_groups(database: Database, chosen: GroupFilter | None = None, limit: int = 100) -> ErrorGroups:
    return database.read(group_queries.find_groups(chosen, limit))


def get_details(database: Database, group_id: int) -> GroupDetails:
    return drive(_details(group_id), database.read)


async def aget_details(database: Database, group_id: int) -> GroupDetails:
    return await adrive(_details(group_id), database.aread)


class GroupChange:
    """Retries or cancels the jobs of a group while it is iterated, with `for` or `async for`, and yields the counts
    after each chunk."""

    def __init__(
        self, database: Database, group_id: int, action: Action, actor: str, reason: str | None = None
    ) -> None:
        self._database = database
        self._order = Order(group_id, action, actor, reason, uuid4(), True).checked()

    def __iter__(self) -> Iterator[Counts]:
        return iterate(self._script(), self._database.run)

    def __aiter__(self) -> AsyncIterator[Counts]:
        return aiterate(self._script(), self._database.arun)

    def _script(self) -> Generator[Query[Any] | Counts, Any, None]:
        cursor: Cursor | None = yield from _start(self._order)
        counts = Counts()
        while cursor is not None:
            chunk, cursor = yield from _chunk(self._order, cursor)
            counts = Counts._make(map(add, counts, chunk))
            yield counts


async def achange_chunk(
    database: Database,
    group_id: int,
    action: Action,
    actor: str,
    reason: str | None = None,
    after: str | None = None,
    act: UUID | None = None,
) -> tuple[Counts, str | None]:
    """Change one chunk. Returns its counts and the cursor of the next chunk, or None if this was the last.

    Raises ActRepeated if the first chunk of `act` was changed before."""
    cursor = None
    if after is not None:
        begun, _, rest = after.partition("~")
        if not re.fullmatch("[0-9a-f]{32}", begun):
            raise InvalidArgument(f"after must be the cursor that the previous chunk returned, got {shown(after)}")
        act, cursor = UUID(begun), Cursor.read(rest)
    order = Order(group_id, action, actor, reason, act or uuid4(), after is not None).checked()
    counts, following = await adrive(_next_chunk(order, cursor), database.arun)
    return counts, None if following is None else f"{order.act.hex}~{following}"


def count_jobs(database: Database, group_id: int, status: Status) -> Total:
    """How many jobs of the group have this status; not exact if there are too many to examine."""
    return drive(_count(group_id, status), database.read)


async def acount_jobs(database: Database, group_id: int, status: Status) -> Total:
    return await adrive(_count(group_id, status), database.aread)


def _details(group_id: int) -> Generator[Query[Any], Any, GroupDetails]:
    at, group = yield group_queries.get_group(group_id)
    versions = yield group_queries.get_versions(group_id)
    example = yield group_queries.get_example(group_id)
    failed = yield group_queries.find_jobs(group_id, Status.FAILED, None, JOBS)
    pending = yield group_queries.find_jobs(group_id, Status.PENDING, None, JOBS)
    return GroupDetails(at, group, versions, example, failed, pending)


def _start(order: Order) -> Generator[Query[Any], Any, Cursor]:
    """Before the failures that come from now on: a job may be retried here and fail again."""
    yield group_queries.get_group(order.group_id)
    began: int = yield listing_queries.get_clock()
    return Cursor.before(datetime.fromtimestamp(0, UTC) + timedelta(microseconds=began))


def _next_chunk(order: Order, cursor: Cursor | None) -> _Chunk:
    if cursor is None:
        cursor = yield from _start(order)
    return (yield from _chunk(order, cursor))


def _chunk(order: Order, cursor: Cursor) -> _Chunk:
    page: GroupJobs = yield group_queries.find_jobs(order.group_id, STATUSES[order.action], cursor, CHUNK)
    counts = Counts()
    if page.jobs:
        ids = [job.id for job in page.jobs]
        done: list[ChangeResult] = yield change_jobs(
            order.action, ids, order.actor, order.reason, None, order.act, order.continues
        )
        counts = counted(done)
    return counts, None if page.next is None else Cursor.read(page.next)


def _count(group_id: int, status: Status) -> Generator[Query[Any], Any, Total]:
    found = examined = 0
    cursor: Cursor | None = None
    while True:
        page: GroupJobs = yield group_queries.find_jobs(group_id, status, cursor, group_queries.LOOK)
        found, examined = found + len(page.jobs), examined + page.examined
        if page.next is None:
            return Total(found, exact=True)
        if examined >= COUNT_LIMIT:
            return Total(found, exact=False)
        cursor = Cursor.read(page.next)
