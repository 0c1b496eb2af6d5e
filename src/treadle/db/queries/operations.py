"""Changes by operators. Each is recorded in the audit table in the same transaction."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from treadle.db.query import Query, Rows, call, statement
from treadle.words.changes import Action, AuditEntry, ChangeResult, Pause
from treadle.words.errors import InvalidArgument, UnknownWorker, shown
from treadle.words.naming import MOST_CONCURRENCY, int_within, text_within
from treadle.words.payload import clean_error, decode
from treadle.words.status import Status

# Jobs changed in one transaction, which locks their rows.
CHUNK = 500


def change_jobs(
    action: Action,
    ids: Sequence[UUID],
    actor: str,
    reason: str | None = None,
    priority: int | None = None,
) -> Query[list[ChangeResult]]:
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
        "actor": text_within(actor, 200, "actor"),
        "reason": None if reason is None else clean_error(reason),
        "priority": priority,
    }

    def read(rows: Rows) -> list[ChangeResult]:
        return [ChangeResult(row[0], row[1], None if row[2] is None else Status(row[2])) for row in rows]

    return call("operate", params, read, columns="id, outcome, status")


def pause(job_type: str | None, queue: str | None, actor: str | None = None, reason: str | None = None) -> Query[bool]:
    """Returns False if it was paused already."""
    return call("pause", _pause_params(job_type, queue, actor, reason), lambda rows: bool(rows[0][0]))


def resume(job_type: str | None, queue: str | None, actor: str | None = None, reason: str | None = None) -> Query[bool]:
    """Returns False if there is no such pause."""
    return call("resume", _pause_params(job_type, queue, actor, reason), lambda rows: bool(rows[0][0]))


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
            raise InvalidArgument(
                f"the concurrency of {shown(name)} cannot be changed: it was started before the schema was upgraded, "
                "or is not a worker of Treadle; restart it"
            )
        return bool(outcome == "done")

    return call("set_concurrency", params, read)


def find_audit(job_id: UUID | None = None, before: int | None = None, limit: int = 100) -> Query[list[AuditEntry]]:
    """The newest first."""
    params = {"job_id": job_id, "before": before, "limit": limit}

    def read(rows: Rows) -> list[AuditEntry]:
        return [AuditEntry._make((*row[:-1], decode(row[-1]))) for row in rows]

    return Query(statement("find_audit"), params, read)


def count_minutes(limit: int, lag: timedelta | None = None) -> Query[int]:
    """Count up to `limit` jobs of each status. `lag`: jobs that finished later than this before now are left for the
    next call; None: the default."""
    params = {"limit": limit} if lag is None else {"limit": limit, "lag": lag}
    return call("count_minutes", params, lambda rows: int(rows[0][0]))


def count_depths() -> Query[int]:
    """Count the jobs of deep lanes and of finished statuses, as far as it is due."""
    return call("count_depths", {}, lambda rows: int(rows[0][0]))


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
