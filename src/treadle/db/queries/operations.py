"""Changes by operators. Each is recorded in the audit table in the same transaction."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from treadle.db.queries.jobs import AnyJob, job_id
from treadle.db.query import Query, Rows, call, statement
from treadle.text.exceptions import clean_error
from treadle.words.changes import Act, Action, ActJob, ActList, AuditEntry, AuditFilter, ChangeResult, Pause
from treadle.words.errors import ActRepeated, InvalidArgument, JobLocked, JobNotFound, UnknownWorker, shown
from treadle.words.naming import MOST_CONCURRENCY, int_within, text_within
from treadle.words.payload import decode
from treadle.words.status import Status

# Jobs changed in one transaction, which locks their rows.
CHUNK = 500
# How many acts find_acts() examines.
EXAMINED_ACTS = 5000
NO_FILTER = AuditFilter()


def has_begun(act: UUID) -> Query[bool]:
    """Whether a part of it has been carried out."""
    return Query(statement("has_begun"), {"act": act}, lambda rows: bool(rows[0][0]))


def change_jobs(
    action: Action,
    ids: Sequence[UUID],
    actor: str | None,
    reason: str | None = None,
    priority: int | None = None,
    act: UUID | None = None,
    continues: bool = False,
) -> Query[list[ChangeResult]]:
    """`act`: what the change is a part of. It is begun once; later chunks of it continue it."""
    if len(ids) > CHUNK:
        raise InvalidArgument(f"at most {CHUNK} jobs are changed in one transaction, got {len(ids)}")
    if (action is Action.PRIORITY) != (priority is not None):
        raise InvalidArgument(
            f"a priority is required for the action priority, and only for it, got {priority!r} for {action}"
        )
    if priority is not None and not -(2**31) < priority < 2**31:
        raise InvalidArgument(f"priority must be from {-(2**31) + 1:,} to {2**31 - 1:,}, got {shown(priority)}")
    params = {
        "action": action.value,
        "ids": list(ids),
        **audit_params(actor, reason),
        "priority": priority,
        "act": act,
        "continues": continues,
    }

    def read(rows: Rows) -> list[ChangeResult]:
        return [ChangeResult(row[0], row[1], None if row[2] is None else Status(row[2])) for row in rows]

    return call("operate", params, read, columns="id, outcome, status", makes_due=True)


def change_job(action: Action, job: AnyJob, priority: int | None = None) -> Query[bool]:
    """Returns False if the status of the job does not allow it, or nothing would change."""
    target = job_id(job)
    query: Query[Any] = change_jobs(action, [target], None, priority=priority)
    return replace(query, read=lambda rows: _is_done(target, rows[0][1]))


def edit_job(
    job: AnyJob,
    arguments: str,
    stored: Iterable[UUID] = (),
    *,
    retry: bool = False,
    actor: str | None = None,
    reason: str | None = None,
    act: UUID | None = None,
) -> Query[bool]:
    """`arguments`: those that change, as JSON; `stored`: what of app.store they use. Returns False if the status of the
    job does not allow it, or nothing would change."""
    target = job_id(job)
    params = {"id": target, "arguments": arguments, "retry": retry, "act": act, "stored": list(stored)}
    return call(
        "edit_job",
        {**params, **audit_params(actor, reason)},
        lambda rows: _is_done(target, rows[0][0]),
        makes_due=True,
    )


def copy_job(
    job: AnyJob,
    arguments: str,
    stored: Iterable[UUID] = (),
    *,
    actor: str | None = None,
    reason: str | None = None,
    act: UUID | None = None,
) -> Query[UUID]:
    """Enqueue a copy of the job with these arguments changed. Returns its id."""
    target = job_id(job)
    params = {"id": target, "arguments": arguments, "act": act, "stored": list(stored)}

    def read(rows: Rows) -> UUID:
        if not _is_done(target, rows[0][1]):
            raise InvalidArgument(
                f"job {target} cannot be copied: it is a workflow or a signal, or waits for the results of other jobs"
            )
        return UUID(str(rows[0][0]))

    return call("copy_job", {**params, **audit_params(actor, reason)}, read, columns="copy_id, outcome", makes_due=True)


def _is_done(job: UUID, outcome: str) -> bool:
    match outcome:
        case "missing":
            raise JobNotFound(job)
        case "busy":
            raise JobLocked(job)
        case "repeated":
            raise ActRepeated
    return outcome == "done"


def pause(job_type: str | None, queue: str | None, actor: str | None = None, reason: str | None = None) -> Query[bool]:
    """Returns False if it was paused already."""
    return call("pause", _pause_params(job_type, queue, actor, reason), lambda rows: bool(rows[0][0]))


def resume(job_type: str | None, queue: str | None, actor: str | None = None, reason: str | None = None) -> Query[bool]:
    """Returns False if there is no such pause."""
    return call("resume", _pause_params(job_type, queue, actor, reason), lambda rows: bool(rows[0][0]), makes_due=True)


def find_pauses() -> Query[list[Pause]]:
    return Query(statement("find_pauses"), {}, lambda rows: [Pause._make(row) for row in rows])


def set_concurrency(
    worker_id: str, concurrency: int | None, actor: str | None = None, reason: str | None = None
) -> Query[bool]:
    """Change how many jobs a live worker runs at once; None: as many as it was started with. Returns False if it is so
    already."""
    if concurrency is not None:
        int_within(concurrency, 0, MOST_CONCURRENCY, "concurrency")
    name = text_within(worker_id, 100, "worker")
    params = {"worker_id": name, "concurrency": concurrency, **audit_params(actor, reason)}

    def read(rows: Rows) -> bool:
        outcome = rows[0][0]
        if outcome == "missing":
            raise UnknownWorker(name)
        if outcome == "unsupported":
            raise InvalidArgument(f"the concurrency of {shown(name)} cannot be changed: it is not a worker of Treadle")
        return bool(outcome == "done")

    return call("set_concurrency", params, read)


def find_audit(
    job_id: UUID | None = None, before: int | None = None, limit: int = 100, act: UUID | None = None
) -> Query[list[AuditEntry]]:
    """The newest first, of one job or of one act."""
    params = {"job_id": job_id, "act": act, "before": before, "limit": limit}
    return Query(statement("find_audit"), params, lambda rows: [_entry(row) for row in rows])


def find_acts(chosen: AuditFilter = NO_FILTER, before: int | None = None, limit: int = 50) -> Query[ActList]:
    """The newest first. With a filter, fewer than `limit` may be found although the list continues."""
    params = {**chosen._asdict(), "before": before, "limit": limit + 1}

    def read(rows: Rows) -> ActList:
        reached, examined = rows[0][:2]
        acts = [
            Act(_entry(row[2:12]), row[12], [_example(each) for each in row[13] or ()])
            for row in rows
            if row[2] is not None
        ]
        if len(acts) > limit:
            return ActList(acts[:limit], acts[limit - 1].first.id, examined)
        return ActList(acts, reached if examined == EXAMINED_ACTS else None, examined)

    return Query(statement("find_acts"), params, read)


def _entry(row: Sequence[Any]) -> AuditEntry:
    return AuditEntry._make((*row[:8], decode(row[8]), row[9]))


def _example(text: str) -> ActJob:
    job, _, job_type = text.partition(" ")
    return ActJob(UUID(job), job_type)


def count_minutes(limit: int, lag: timedelta | None = None) -> Query[int]:
    """Count up to `limit` jobs of each status. `lag`: jobs that finished later than this before now are left for the
    next call; None: the default."""
    params = {"limit": limit} if lag is None else {"limit": limit, "lag": lag}
    return call("count_minutes", params, lambda rows: int(rows[0][0]))


def count_depths() -> Query[float]:
    """Count the jobs of deep lanes and of finished statuses, if it is due. Returns in how many seconds it is again."""
    return call("count_depths", {}, lambda rows: float(rows[0][0]))


def audit_params(actor: str | None, reason: str | None) -> dict[str, object]:
    """Who makes a change, and why: for the audit."""
    return {
        "actor": None if actor is None else text_within(actor, 200, "actor"),
        "reason": None if reason is None else clean_error(reason),
    }


def _pause_params(job_type: str | None, queue: str | None, actor: str | None, reason: str | None) -> dict[str, object]:
    return {
        "job_type": None if job_type is None else text_within(job_type, 50, "job type"),
        "queue": None if queue is None else text_within(queue, 50, "queue"),
        **audit_params(actor, reason),
    }
