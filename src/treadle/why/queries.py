"""The queries that return all facts about one job or one schedule."""

import json
from datetime import UTC, datetime
from functools import cache
from typing import Any
from uuid import UUID

from treadle.db.queries.schedules import schedule_name
from treadle.db.query import Query, Rows, statement
from treadle.why.facts import Ahead, Facts, Failure, JobWorker, LimitUse, LiveWorker, RowLock, ScheduleFacts
from treadle.words.changes import Pause
from treadle.words.errors import JobNotFound, UnknownSchedule
from treadle.words.origin import Origin
from treadle.words.refusal import Refusal
from treadle.words.status import Status
from treadle.words.stuck import StoppedChild, Stuck


def get_job_facts(job_id: UUID) -> Query[Facts]:
    def read(rows: Rows) -> Facts:
        if not rows:
            raise JobNotFound(job_id)
        return _facts(rows[0])

    return Query(_statement("get_job_facts", "job"), {"id": job_id}, read)


def get_schedule_facts(name: str) -> Query[ScheduleFacts]:
    def read(rows: Rows) -> ScheduleFacts:
        if not rows:
            raise UnknownSchedule(name)
        return _schedule_facts(rows[0])

    return Query(_statement("get_schedule_facts", "schedule"), {"name": schedule_name(name)}, read)


@cache
def _statement(name: str, subject: str) -> str:
    """With the parts that both queries have, about this subject."""
    text = statement(name)
    parts = {
        "pauses_of": statement("pauses_of"),
        "live_workers": statement("live_workers"),
        "last_worker": statement("last_worker"),
        "find_refusal": statement("find_refusal"),
    }
    for part, sql in parts.items():
        text = text.replace(f"(/* {part}.sql */)", f"({sql})".replace("job.", f"{subject}."))
    return text


def _schedule_facts(row: tuple[Any, ...]) -> ScheduleFacts:
    *columns, skipped, paused_by, pause_reason, pauses, workers, worker_id, seen_at, refusal = row
    known = dict(zip(ScheduleFacts._fields, columns, strict=False))
    status = known["last_status"]
    return ScheduleFacts(
        **known | {"last_status": None if status is None else Status(status)},
        skipped=skipped or 0,
        paused_by=paused_by,
        pause_reason=pause_reason,
        pauses=[_pause(each) for each in json.loads(pauses or "[]")],
        workers=[_worker(each) for each in json.loads(workers or "[]")],
        last_worker=None if worker_id is None else (worker_id, seen_at),
        refusal=_refusal(refusal),
    )


def _facts(row: tuple[Any, ...]) -> Facts:
    job, rest = dict(zip(Facts._fields, row[:20], strict=False)), iter(row[20:])

    def take(number: int) -> list[Any]:
        return [next(rest) for _ in range(number)]

    worker = JobWorker._make([*take(5), Stuck.read(take(5)), StoppedChild.read(*take(1))])
    (running_beside,) = take(1)
    failure = take(4)
    cancelled = take(2)
    pauses, blocker, earlier, row_lock, workers = take(5)
    last_worker = take(2)
    ahead = take(3)
    finished_attempts, finished_within, tick_age = take(3)
    null_columns, schema, origin, limits = take(4)
    waits, waited_for, unended, is_open, waits_for_signal = take(5)
    (refusal,) = take(1)
    return Facts(
        **job | {"status": Status(job["status"])},
        worker=worker,
        running_beside=running_beside or 0,
        failure=None if failure[0] is None else Failure(*failure),
        cancelled_by=cancelled[0],
        cancel_reason=cancelled[1],
        pauses=[_pause(each) for each in json.loads(pauses or "[]")],
        blocker=blocker,
        earlier=earlier or 0,
        row_lock=None if row_lock is None else _row_lock(json.loads(row_lock)),
        workers=[_worker(each) for each in json.loads(workers or "[]")],
        last_worker=None if last_worker[0] is None else (last_worker[0], last_worker[1]),
        ahead=Ahead() if ahead[0] is None else Ahead(*ahead),
        finished_attempts=None if finished_attempts is None else int(finished_attempts),
        finished_within=finished_within,
        # The tick's clock is 0 until the first tick.
        tick_age=None if tick_age > 1_000_000_000 else tick_age,
        null_columns=null_columns,
        schema=schema,
        origin=None if origin is None else _origin(origin),
        limits=[_limit(each) for each in json.loads(limits or "[]")],
        waits=waits,
        waited_for=waited_for,
        others_waited_for=max(0, int(unended or 0) - 1),
        is_open=is_open,
        waits_for_signal=waits_for_signal,
        refusal=_refusal(refusal),
    )


def _pause(values: list[Any]) -> Pause:
    job_type, queue, paused_at, paused_by, reason = values
    return Pause(job_type, queue, _moment(paused_at), paused_by, reason)


def _worker(values: list[Any]) -> LiveWorker:
    *known, seen_at, since, kind, job, job_type, stack, host, pid = values
    stuck = Stuck.read((_moment_or_none(since), kind, None if job is None else UUID(job), job_type, stack))
    return LiveWorker._make([*known, _moment(seen_at), stuck, host, pid])


def _row_lock(values: list[Any]) -> RowLock:
    pid, application, since = values
    return RowLock(pid, application, _moment_or_none(since))


def _limit(values: list[Any]) -> LimitUse:
    limit = LimitUse._make(values)
    opens_at, frees_at, changed_at = map(_moment_or_none, (values[11], values[12], values[16]))
    return limit._replace(opens_at=opens_at, frees_at=frees_at, changed_at=changed_at)


def _refusal(name: str | None) -> Refusal | None:
    return None if name is None else Refusal(name)


def _origin(text: str) -> Origin | None:
    try:
        return Origin.read(text)
    except (KeyError, TypeError, ValueError):  # written by hand
        return None


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _moment_or_none(seconds: float | None) -> datetime | None:
    return None if seconds is None else _moment(seconds)
