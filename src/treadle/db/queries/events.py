"""Events: written for a worker's jobs, read for one job or for all."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

from treadle.db.queries.records import flat, ids
from treadle.db.query import Query, Rows, call, statement
from treadle.words.errors import InvalidArgument, shown
from treadle.words.job import Claim
from treadle.words.payload import decode
from treadle.words.record import OutgoingEvent, RecordedEvent

_MAX_INT = 2**31 - 1
_MAX_BIGINT = 2**63 - 1

# How an event is selected from job_events().
_COLUMNS = "lease, phase, number, job_type, name, data::text, at, attempt"


class Position(NamedTuple):
    """How far a reader of one job's events has come: see sql/functions/public/job_events.sql."""

    number: int = 0
    lease: int | None = None
    phase: int | None = None

    @classmethod
    def read(cls, after: int | str | None) -> "Position":
        if after is None:
            return cls()
        if isinstance(after, int) and not isinstance(after, bool) and 0 <= after <= _MAX_INT:
            return cls(after)
        parts = after.split(".") if isinstance(after, str) else []
        if len(parts) in (1, 3) and all(map(_is_number, parts)):
            position = cls(*map(int, parts))
            # Numbers outside the range of their columns would make the query fail each time it is retried.
            if (
                position.number <= _MAX_INT
                and (position.lease or 0) <= _MAX_BIGINT
                and (position.phase or 0) <= _MAX_INT
            ):
                return position
        raise InvalidArgument(f"after must be the number of an event, or an event's cursor, got {shown(after)}")

    def __str__(self) -> str:
        return f"{self.number}.{self.lease}.{self.phase}"


class Cursor(NamedTuple):
    """How far a reader of all events has come."""

    transaction: int = 0
    job_id: UUID = UUID(int=0)
    number: int = 0

    @classmethod
    def read(cls, after: str | None) -> "Cursor":
        if after is None:
            return cls()
        parts = after.split(".") if isinstance(after, str) else []
        if len(parts) == 3 and _is_number(parts[0]) and _is_number(parts[2]):
            with suppress(ValueError):
                cursor = cls(int(parts[0]), UUID(parts[1]), int(parts[2]))
                # PostgreSQL up to 15 reads a transaction number that is too large as the highest possible one.
                if cursor.number <= _MAX_INT and cursor.transaction < 2**64:
                    return cursor
        raise InvalidArgument(f"after must be the cursor of an event, got {shown(after)}")

    def __str__(self) -> str:
        return f"{self.transaction}.{self.job_id}.{self.number}"


def record_events(
    worker_id: str, events: Sequence[tuple[Claim, Sequence[OutgoingEvent]]], now: float
) -> Query[set[UUID]]:
    """Record the events of these claims. Returns the jobs whose events were accepted."""
    params, lines = flat(worker_id, events, now)
    params |= {"names": [line.name for line in lines], "data": [line.data for line in lines]}
    return Query(statement("record_events"), params, ids)


def find_job_events(job_id: UUID, after: Position, limit: int) -> Query[list[RecordedEvent]]:
    params = {"id": job_id, "limit": limit, **after._asdict()}

    def read(rows: Rows) -> list[RecordedEvent]:
        events, at = [], after
        for lease, phase, number, job_type, name, data, moment, attempt in rows:
            furthest = max((at.lease if at.lease is not None else -1, at.phase or 0), (lease, phase))
            at = Position(max(at.number, number), *furthest)
            events.append(RecordedEvent(job_id, job_type, name, decode(data), moment, attempt, number or None, str(at)))
        return events

    return call("job_events", params, read, columns=_COLUMNS)


class Page(NamedTuple):
    """A page of the events of all jobs, and the position that it reached, including events that the filter left out."""

    events: list[RecordedEvent]
    reached: Cursor
    full: bool


def find_all_events(
    after: Cursor, job_types: Sequence[str] | None, names: Sequence[str] | None, limit: int
) -> Query[Page]:
    params: dict[str, Any] = {
        "job_types": job_types,
        "names": names,
        "transaction": str(after.transaction),
        "job_id": after.job_id,
        "number": after.number,
        "limit": limit,
    }

    def read(rows: Rows) -> Page:
        events, reached = [], after
        for transaction, job_id, number, job_type, name, data, moment, attempt in rows:
            reached = Cursor(int(transaction), job_id, number)
            if data is not None:
                events.append(
                    RecordedEvent(job_id, job_type, name, decode(data), moment, attempt, number, str(reached))
                )
        return Page(events, reached, len(rows) == limit)

    return Query(statement("find_all_events"), params, read)


def find_newest_events(after: Mapping[UUID, int], limit: int) -> Query[list[RecordedEvent]]:
    """The newest events of each job after a number, oldest first."""
    params = {"ids": list(after), "after": list(after.values()), "limit": limit}

    def read(rows: Rows) -> list[RecordedEvent]:
        return [
            RecordedEvent(job_id, job_type, name, decode(data), moment, attempt, number, str(number))
            for job_id, number, job_type, name, data, moment, attempt in rows
        ]

    return Query(statement("find_newest_events"), params, read, pinned=True)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 19
