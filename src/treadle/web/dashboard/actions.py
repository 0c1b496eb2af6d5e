"""The changes that operators make, by a form or by the API. Each is written to the audit in the same transaction."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from treadle.app.treadle import Treadle
from treadle.db.queries import operations as operation_queries
from treadle.db.queries import schedules as schedule_queries
from treadle.db.queries import workflows as workflow_queries
from treadle.db.queries.limits import LimitOptions
from treadle.operations.bulk import Confirmed, achange_chunk, counted
from treadle.web.dashboard.security.access import Visitor
from treadle.words.changes import Action, ChangeResult
from treadle.words.duration import Duration
from treadle.words.errors import InvalidArgument
from treadle.words.listing import JobFilter

SUMMARIES = {
    Action.RETRY: "Retry a job",
    Action.CANCEL: "Cancel a job",
    Action.DELETE: "Delete a job",
    Action.RUN_NOW: "Run a scheduled job now",
    Action.PRIORITY: "Change a job's priority",
}


class ScheduleAction(StrEnum):
    """An operator's action on a schedule."""

    PAUSE = "pause"
    RESUME = "resume"
    RUN = "run"


SCHEDULE_SUMMARIES = {
    ScheduleAction.PAUSE: "Pause a schedule",
    ScheduleAction.RESUME: "Resume a schedule",
    ScheduleAction.RUN: "Enqueue a job of a schedule now",
}


class LimitAction(StrEnum):
    """An operator's action on a limit, or on one key of it."""

    SET = "set"
    PAUSE = "pause"
    RESET = "reset"


LIMIT_SUMMARIES = {
    LimitAction.SET: "Change a limit, or one key of it",
    LimitAction.PAUSE: "Start no more jobs of a limit, or of one key of it",
    LimitAction.RESET: "Undo a change of a limit, or of one key of it",
}

SIGNAL_SUMMARY = "Send a signal to a workflow"
CONCURRENCY_SUMMARY = "Change how many jobs a worker runs at once"


class Chunk(NamedTuple):
    """How many jobs of one chunk had which outcome."""

    done: int
    unfit: int
    busy: int
    missing: int
    next: str | None = None
    """The cursor of the next chunk; None after the last one."""


def actor(visitor: Visitor) -> str:
    return f"dashboard:{visitor.name}"


async def change(
    app: Treadle, visitor: Visitor, action: Action, job_id: UUID, reason: str | None, priority: int | None
) -> ChangeResult:
    query = operation_queries.change_jobs(action, [job_id], actor(visitor), reason, priority)
    (done,) = await app.database.arun(query)
    return done


async def send_signal(app: Treadle, visitor: Visitor, job_id: UUID, name: str, value: Any) -> bool:
    """False: the step has got a signal before, or has ended."""
    return await app.database.arun(workflow_queries.send_signal(job_id, name, value, actor(visitor)))


async def change_selected(
    app: Treadle,
    visitor: Visitor,
    action: Action,
    ids: Sequence[UUID],
    reason: str | None,
    priority: int | None,
    act: UUID | None = None,
) -> Chunk:
    if not ids:
        raise InvalidArgument("no jobs were selected; give ids or a filter")
    query = operation_queries.change_jobs(action, ids, actor(visitor), reason, priority, act)
    done = await app.database.arun(query)
    return Chunk(*counted(done))


async def change_matching(
    app: Treadle,
    visitor: Visitor,
    action: Action,
    job_filter: JobFilter,
    after: str | None,
    reason: str | None,
    priority: int | None,
    act: UUID | None = None,
    confirmed: Confirmed = Confirmed(),  # noqa: B008 - it cannot be changed
) -> Chunk:
    """Changes one chunk of the jobs that match a filter."""
    counts, following = await achange_chunk(
        app.database, job_filter, action, actor(visitor), reason, priority, after, act, confirmed
    )
    return Chunk(*counts, following)


async def pause(
    app: Treadle, visitor: Visitor, job_type: str | None, queue: str | None, everything: bool, reason: str | None
) -> bool:
    """False: it was already paused."""
    if (job_type is None and queue is None) != everything:
        # An empty form must not pause the whole queue.
        raise InvalidArgument("give a job type, a queue or both; to pause all jobs, give only everything")
    return await app.database.arun(operation_queries.pause(job_type, queue, actor(visitor), reason))


async def resume(app: Treadle, visitor: Visitor, job_type: str | None, queue: str | None, reason: str | None) -> bool:
    """False: it was not paused."""
    return await app.database.arun(operation_queries.resume(job_type, queue, actor(visitor), reason))


async def set_concurrency(
    app: Treadle, visitor: Visitor, worker_id: str, concurrency: int | None, reason: str | None
) -> bool:
    """False: it was already so."""
    return await app.database.arun(operation_queries.set_concurrency(worker_id, concurrency, actor(visitor), reason))


async def change_schedule(
    app: Treadle, visitor: Visitor, action: ScheduleAction, name: str, reason: str | None
) -> bool:
    """False: it was already paused, or was not paused."""
    return await app.database.arun(schedule_queries.operate(action.value, name, actor(visitor), reason))


async def set_limit(
    app: Treadle,
    visitor: Visitor,
    name: str,
    amount: int | None,
    key: str | None,
    period: Duration | None,
    burst: int | None,
    reason: str | None,
) -> None:
    options = LimitOptions(actor=actor(visitor))
    if key is not None:
        options["key"] = key
    if period is not None:
        options["period"] = period
    if burst is not None:
        options["burst"] = burst
    if reason is not None:
        options["reason"] = reason
    await app.limits.aset(name, amount, **options)


async def pause_limit(app: Treadle, visitor: Visitor, name: str, key: str | None, reason: str | None) -> None:
    await app.limits.apause(name, key, actor=actor(visitor), reason=reason)


async def reset_limit(app: Treadle, visitor: Visitor, name: str, key: str | None, reason: str | None) -> bool:
    """False: nothing was changed at run time."""
    return await app.limits.areset(name, key, actor=actor(visitor), reason=reason)
