"""What the keys of treadle top change, as values: the question to ask first, the query to run, the message to show."""

import shlex
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from treadle.db.queries import limits as limit_queries
from treadle.db.queries import operations as operation_queries
from treadle.db.queries import schedules as schedule_queries
from treadle.db.queries.limits import Kind, LimitOptions
from treadle.db.query import Query
from treadle.text.masking import masked
from treadle.words.changes import Action, ChangeResult, Pause
from treadle.words.errors import InvalidArgument
from treadle.words.formatting import printable, short_id
from treadle.words.limit_status import LimitStatus
from treadle.words.schedule_status import ScheduleStatus
from treadle.words.snapshot import JobSnapshot

WORDS = {Action.CANCEL: ("Cancel", "cancelled"), Action.RETRY: ("Retry", "retried")}


class PendingAction(NamedTuple):
    """An action that waits for a yes."""

    question: str
    query: Query[Any]
    message: Callable[[Any], str]
    """The message for what the query returned."""


def pause_or_resume(job_type: str, queue: str, pauses: Sequence[Pause], actor: str) -> PendingAction:
    """Pause the type in all queues. If a pause applies to this lane already, end the most specific one instead."""
    found = [each for each in pauses if each.job_type in (job_type, None) and each.queue in (queue, None)]
    if not found:
        what = printable(job_type)
        return PendingAction(
            f"Pause {what}? Running jobs continue, no new ones start.",
            operation_queries.pause(job_type, None, actor),
            lambda changed: f"Paused {what}." if changed else f"{what} was already paused.",
        )
    pause = min(found, key=lambda each: (each.job_type is None, each.queue is None))
    what = _named(pause)
    since = f"{pause.paused_at.astimezone():%H:%M on %d %b}"
    because = f": {printable(pause.reason)}" if pause.reason else ""
    return PendingAction(
        f"Resume {what}? Paused by {printable(pause.paused_by or 'an unknown user')} at {since}{because}.",
        operation_queries.resume(pause.job_type, pause.queue, actor),
        lambda ended: f"Resumed {what}." if ended else f"{what} was no longer paused.",
    )


def change_job(action: Action, job: JobSnapshot, actor: str) -> PendingAction:
    verb, done = WORDS[action]
    name = f"{printable(job.job_type)} {short_id(job.id)}"

    def message(results: list[ChangeResult]) -> str:
        match results[0].outcome:
            case "done":
                return f"{name} was {done}."
            case "busy":
                return f"{name} is locked by another transaction; try again."
            case "missing":
                return f"{name} no longer exists."
        return f"{name} is {results[0].status} and cannot be {done}."

    return PendingAction(f"{verb} {name}?", operation_queries.change_jobs(action, [job.id], actor), message)


def pause_or_resume_schedule(schedule: ScheduleStatus, actor: str) -> PendingAction:
    name = printable(schedule.name)
    if schedule.paused_at is None:
        return PendingAction(
            f"Pause the schedule {name}? No jobs are enqueued until it is resumed.",
            schedule_queries.operate("pause", schedule.name, actor),
            lambda changed: f"Paused {name}." if changed else f"{name} was already paused.",
        )
    since = f"{schedule.paused_at.astimezone():%H:%M on %d %b}"
    return PendingAction(
        f"Resume the schedule {name}? It was paused at {since}.",
        schedule_queries.operate("resume", schedule.name, actor),
        lambda changed: f"Resumed {name}." if changed else f"{name} was no longer paused.",
    )


def pause_or_resume_limit(row: LimitStatus, actor: str) -> PendingAction:
    """Raises InvalidArgument if it cannot be paused or resumed."""
    name = printable(masked(f"{row.name}{row.scope}"))
    kind = Kind(row.name, row.per or "", row.kind)
    if not row.paused:
        options = LimitOptions(actor=actor) if row.key is None else LimitOptions(actor=actor, key=row.key)
        return PendingAction(
            f"Pause the limit {name}? Running jobs continue, no new ones start.",
            limit_queries.pause(row.name, kind, options),
            lambda _: f"Paused {name}.",
        )
    if row.changed_at is None or not (row.in_code or row.key is not None):
        raise InvalidArgument(f"to resume it, set an amount: treadle limits set {shlex.quote(row.name)} AMOUNT")
    return PendingAction(
        f"Resume the limit {name}? It was paused by {printable(masked(row.changed_by or 'somebody'))}.",
        limit_queries.reset(kind, row.key, actor),
        lambda changed: f"Resumed {name}." if changed else f"{name} is paused for all keys, or was no longer paused.",
    )


def run_schedule(schedule: ScheduleStatus, actor: str) -> PendingAction:
    name = printable(schedule.name)
    return PendingAction(
        f"Enqueue a job of {name} now, besides those of its times?",
        schedule_queries.operate("run", schedule.name, actor),
        lambda _: f"Enqueued a job of {name}.",
    )


def _named(pause: Pause) -> str:
    where = f"queue {printable(pause.queue)}" if pause.queue is not None else ""
    if pause.job_type is None:
        return where or "all jobs"
    return printable(pause.job_type) + (f" in {where}" if where else "")
