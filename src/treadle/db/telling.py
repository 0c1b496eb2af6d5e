"""The queries of what jobs tell and remember, as values: events, log lines, checkpoints, steps."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from treadle.db.query import Query, Rows, statement
from treadle.words.claim import Claim
from treadle.words.errors import InvalidArgument, shown
from treadle.words.payload import Json, decode
from treadle.words.progress import Progress
from treadle.words.record import Logged, LogLine, RecordedEvent, Told
from treadle.words.sight import Seen
from treadle.words.status import Status

Line = TypeVar("Line")

_MAX_INT = 2**31 - 1
_MAX_BIGINT = 2**63 - 1


class Look(NamedTuple):
    """As much of a job as changes while somebody watches."""

    status: str
    lease: int
    events_count: int
    progress: int
    stage: str | None
    pace: str | None
    started_at: datetime | None


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
            # Within their columns: what the server cannot read, it would be asked again and again.
            if (
                position.number <= _MAX_INT
                and (position.lease or 0) <= _MAX_BIGINT
                and (position.phase or 0) <= _MAX_INT
            ):
                return position
        raise InvalidArgument(f"after must be the number of an event, or an event's cursor, got {shown(after)}")

    def __str__(self) -> str:
        return f"{self.number}.{self.lease}.{self.phase}"


class Place(NamedTuple):
    """How far a reader of all events has come."""

    transaction: int = 0
    job_id: UUID = UUID(int=0)
    number: int = 0

    @classmethod
    def read(cls, after: str | None) -> "Place":
        if after is None:
            return cls()
        parts = after.split(".") if isinstance(after, str) else []
        if len(parts) == 3 and _is_number(parts[0]) and _is_number(parts[2]):
            with suppress(ValueError):
                place = cls(int(parts[0]), UUID(parts[1]), int(parts[2]))
                # PostgreSQL up to 15 takes a transaction number of any length for the highest, and would wait for it.
                if place.number <= _MAX_INT and place.transaction < 2**64:
                    return place
        raise InvalidArgument(f"after must be the cursor of an event, got {shown(after)}")

    def __str__(self) -> str:
        return f"{self.transaction}.{self.job_id}.{self.number}"


def record_events(
    schema: str, worker_id: str, told: Sequence[tuple[Claim, Sequence[Told]]], now: float
) -> Query[set[UUID]]:
    """Reads as the jobs that were accepted."""
    owners, lines = _flat(told)
    params = {
        **_jobs(worker_id, told),
        "owners": owners,
        "sequences": [line.sequence for line in lines],
        "names": [line.name for line in lines],
        "data": [line.data for line in lines],
        "ages": [max(0.0, now - line.at) for line in lines],
    }
    return Query(statement("record_events", schema), params, _ids)


def keep_logs(
    schema: str,
    worker_id: str,
    logged: Sequence[tuple[Claim, Sequence[Logged]]],
    now: float,
    head: int,
    tail: int,
) -> Query[set[UUID]]:
    """Reads as the jobs that were accepted."""
    owners, lines = _flat(logged)
    params = {
        **_jobs(worker_id, logged),
        "owners": owners,
        "sequences": [line.sequence for line in lines],
        "levels": [line.level for line in lines],
        "loggers": [line.logger for line in lines],
        "messages": [line.message for line in lines],
        "ages": [max(0.0, now - line.at) for line in lines],
        "head": head,
        "tail": tail,
    }
    return Query(statement("keep_logs", schema), params, _ids)


def logs(schema: str, job_id: UUID, after: int = 0) -> Query[list[LogLine]]:
    return Query(statement("get_logs", schema), {"id": job_id, "after": after}, _log_lines)


def save_checkpoint(schema: str, worker_id: str, claim: Claim, state: str) -> Query[bool]:
    """Reads as whether the job is still held."""
    params = {"id": claim.id, "state": state, "lease": claim.lease, "worker_id": worker_id}
    return Query(statement("save_checkpoint", schema), params, _yes)


def finish_step(schema: str, worker_id: str, claim: Claim, position: int, name: str, result: str | None) -> Query[bool]:
    """Reads as whether the job is still held."""
    params = {
        "id": claim.id,
        "position": position,
        "name": name,
        "result": result,
        "lease": claim.lease,
        "worker_id": worker_id,
    }
    return Query(statement("finish_step", schema), params, _yes)


def lock_held(schema: str, worker_id: str, claim: Claim) -> Query[bool]:
    """Reads as whether the job is still held; if so, it is until the transaction ends."""
    params = {"id": claim.id, "lease": claim.lease, "worker_id": worker_id}
    return Query(statement("lock_held", schema), params, _yes)


def complete_held(schema: str, worker_id: str, claim: Claim, result: str | None) -> Query[bool]:
    """Reads as whether it was accepted."""
    params = {"id": claim.id, "result": result, "lease": claim.lease, "worker_id": worker_id}
    return Query(statement("complete_job", schema), params, _yes)


def steps(schema: str, job_id: UUID) -> Query[dict[int, tuple[str, str | None]]]:
    """By position: the name and the result, as JSON, of each step that is done."""
    return Query(
        statement("get_steps", schema),
        {"id": job_id},
        lambda rows: {position: (name, result) for position, name, result in rows},
    )


def job_events(schema: str, job_id: UUID, after: Position, limit: int) -> Query[list[RecordedEvent]]:
    params = {"id": job_id, "limit": limit, **after._asdict()}

    def read(rows: Rows) -> list[RecordedEvent]:
        events, at = [], after
        for lease, phase, number, job_type, name, data, moment, attempt in rows:
            seen = max((at.lease if at.lease is not None else -1, at.phase or 0), (lease, phase))
            at = Position(max(at.number, number), *seen)
            events.append(RecordedEvent(job_id, job_type, name, decode(data), moment, attempt, number or None, str(at)))
        return events

    return Query(statement("job_events", schema), params, read)


class Page(NamedTuple):
    """Some of all events, and how far the look came: also over those that were not wanted."""

    events: list[RecordedEvent]
    reached: Place
    full: bool


def all_events(
    schema: str, after: Place, job_types: Sequence[str] | None, names: Sequence[str] | None, limit: int
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
            reached = Place(int(transaction), job_id, number)
            if data is not None:
                events.append(
                    RecordedEvent(job_id, job_type, name, decode(data), moment, attempt, number, str(reached))
                )
        return Page(events, reached, len(rows) == limit)

    return Query(statement("find_all_events", schema), params, read)


def look_at_jobs(schema: str, ids: Sequence[UUID]) -> Query[dict[UUID, Look]]:
    return Query(
        statement("get_job_states", schema),
        {"ids": list(ids)},
        lambda rows: {row[0]: Look._make(row[1:]) for row in rows},
    )


def see_jobs(schema: str, ids: Sequence[UUID], running: int = 0) -> Query[list[Seen]]:
    """These jobs as they are drawn, and up to so many others that run."""
    params = {"ids": list(ids), "running": running > 0, "limit": running}
    return Query(statement("get_snapshots", schema), params, _seen)


def see_failed(schema: str, seconds: float, limit: int) -> Query[list[Seen]]:
    """Those that failed within so many seconds, the newest first."""
    return Query(statement("find_failed_jobs", schema), {"seconds": seconds, "limit": limit}, _seen)


def newest_events(schema: str, after: Mapping[UUID, int], limit: int) -> Query[list[RecordedEvent]]:
    """The newest events of each job after a number, oldest first."""
    params = {"ids": list(after), "after": list(after.values()), "limit": limit}

    def read(rows: Rows) -> list[RecordedEvent]:
        return [
            RecordedEvent(job_id, job_type, name, decode(data), moment, attempt, number, str(number))
            for job_id, number, job_type, name, data, moment, attempt in rows
        ]

    return Query(statement("find_newest_events", schema), params, read)


def newest_logs(schema: str, after: Mapping[UUID, int], limit: int) -> Query[dict[UUID, list[LogLine]]]:
    """The newest log lines of each job after a number, oldest first."""
    params = {"ids": list(after), "after": list(after.values()), "limit": limit}

    def read(rows: Rows) -> dict[UUID, list[LogLine]]:
        found: dict[UUID, list[LogLine]] = {}
        for row in rows:
            found.setdefault(row[0], []).extend(_log_lines([row[1:]]))
        return found

    return Query(statement("find_newest_logs", schema), params, read)


def await_news(schema: str, span: timedelta) -> Query[None]:
    return Query(statement("await_news", schema), {"span": span}, lambda _: None)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 19


def _jobs(worker_id: str, told: Sequence[tuple[Claim, Sequence[Any]]]) -> dict[str, Json]:
    return {
        "worker_id": worker_id,
        "ids": [claim.id for claim, _ in told],
        "leases": [claim.lease for claim, _ in told],
    }


def _flat(told: Sequence[tuple[Claim, Sequence[Line]]]) -> tuple[list[int], list[Line]]:
    """All lines one after the other, and to which of the jobs each belongs."""
    owners = [index for index, (_, lines) in enumerate(told, 1) for _ in lines]
    return owners, [line for _, lines in told for line in lines]


def _ids(rows: Rows) -> set[UUID]:
    return {row[0] for row in rows}


def _yes(rows: Rows) -> bool:
    return bool(rows[0][0])


def _seen(rows: Rows) -> list[Seen]:
    return [
        Seen(job_id, job_type, Status(status), _progress(percent, stage, pace), *rest)
        for job_id, job_type, status, percent, stage, pace, *rest in rows
    ]


def _progress(percent: int, stage: str | None, pace: str | None) -> Progress:
    """Whoever writes to the table by hand may have counted something else."""
    counted = decode(pace) if pace else None
    known = {key: value for key, value in counted.items() if key in _PACE} if isinstance(counted, dict) else {}
    return Progress(percent, stage, **known)


def _log_lines(rows: Rows) -> list[LogLine]:
    return [
        LogLine(number, at, attempt, _LEVELS.get(level, str(level)), logger, message)
        for number, at, attempt, level, logger, message in rows
    ]


_PACE = ("done", "total", "rate", "left")
_LEVELS = {10: "DEBUG", 20: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL"}
