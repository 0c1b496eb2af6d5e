"""The queries that return all facts about one job or one schedule."""

import json
from collections import namedtuple
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar
from uuid import UUID

from treadle.db.queries.schedules import schedule_name
from treadle.db.query import Query, Rows, statement
from treadle.why.facts import Ahead, Facts, Failure, JobWorker, LimitUse, LiveWorker, RowLock, ScheduleFacts
from treadle.words.changes import Pause
from treadle.words.errors import JobNotFound, UnknownSchedule
from treadle.words.job import Origin
from treadle.words.refusal import Refusal
from treadle.words.status import Status
from treadle.words.stuck import StoppedChild, Stuck

Read = TypeVar("Read")

# The columns of both queries, in their order. Most have the name of a fact.
_JobColumns = namedtuple(
    "_JobColumns",
    "at id job_type queue priority status attempts max_attempts lease key blocked run_at worker_id claimed_at "
    "started_at finished_at seen_at progress stage error "
    "worker_lease lost_at is_registered host pid stuck_since stuck_kind stuck_job stuck_job_type stuck_stack "
    "stopped_children running_beside failed_attempt failed_at failed_error failed_newest cancelled_by cancel_reason "
    "pauses blocker earlier row_lock workers last_worker last_seen_at "
    "ahead_in_lane ahead_same_priority ahead_higher_priority finished_attempts finished_within tick_age "
    "null_columns schema origin limits waits waited_for unended is_open waits_for_signal is_workflow refusal",
)
_ScheduleColumns = namedtuple(
    "_ScheduleColumns",
    "at name job_type queue overlap in_code declared_at retired_at paused_at starts_at next_at ended last_at last_job "
    "last_status error retry_at skipped paused_by pause_reason pauses workers last_worker last_seen_at refusal",
)


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
    found = _ScheduleColumns._make(row)
    return ScheduleFacts(
        **_same(found, ScheduleFacts)
        | {
            "last_status": None if found.last_status is None else Status(found.last_status),
            "skipped": found.skipped or 0,
            "pauses": _each(_pause, found.pauses),
            "workers": _each(_worker, found.workers),
            "last_worker": None if found.last_worker is None else (found.last_worker, found.last_seen_at),
            "refusal": _refusal(found.refusal),
        }
    )


def _facts(row: tuple[Any, ...]) -> Facts:
    found = _JobColumns._make(row)
    stuck = (found.stuck_since, found.stuck_kind, found.stuck_job, found.stuck_job_type, found.stuck_stack)
    worker = JobWorker(
        found.worker_lease,
        found.lost_at,
        found.is_registered,
        found.host,
        found.pid,
        Stuck.read(stuck),
        StoppedChild.read(found.stopped_children),
    )
    failure = Failure(found.failed_attempt, found.failed_at, found.failed_error, found.failed_newest)
    ahead = Ahead(found.ahead_in_lane, found.ahead_same_priority, found.ahead_higher_priority)
    return Facts(
        **_same(found, Facts)
        | {
            "status": Status(found.status),
            "worker": worker,
            "running_beside": found.running_beside or 0,
            "failure": None if found.failed_attempt is None else failure,
            "pauses": _each(_pause, found.pauses),
            "earlier": found.earlier or 0,
            "row_lock": None if found.row_lock is None else _row_lock(json.loads(found.row_lock)),
            "workers": _each(_worker, found.workers),
            "last_worker": None if found.last_worker is None else (found.last_worker, found.last_seen_at),
            "ahead": Ahead() if found.ahead_in_lane is None else ahead,
            "finished_attempts": None if found.finished_attempts is None else int(found.finished_attempts),
            # The tick's clock is 0 until the first tick.
            "tick_age": None if found.tick_age > 1_000_000_000 else found.tick_age,
            "origin": None if found.origin is None else _origin(found.origin),
            "limits": _each(_limit, found.limits),
            "others_waited_for": max(0, int(found.unended or 0) - 1),
            "refusal": _refusal(found.refusal),
        }
    )


def _same(found: Any, kind: type[Any]) -> dict[str, Any]:
    """The columns that have the name of a fact."""
    return {name: value for name, value in found._asdict().items() if name in kind._fields}


def _each(read: Callable[[list[Any]], Read], rows: str | None) -> list[Read]:
    return [read(each) for each in json.loads(rows or "[]")]


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
    times: dict[str, Any] = {
        name: _moment_or_none(getattr(limit, name)) for name in ("opens_at", "frees_at", "changed_at")
    }
    return limit._replace(**times)


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
