"""The queries of a worker, as values: claims and outcomes in batches, liveness, recovery, bells."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from treadle.db.queries.columns import columns
from treadle.db.query import Query, Rows, call, statement
from treadle.words.claim import Claim
from treadle.words.job import JobError
from treadle.words.outcome import Outcome
from treadle.words.status import Status


class Recovered(NamedTuple):
    """A job that was taken back from a worker that is gone, and what it is now."""

    id: UUID
    job_type: str
    status: Status
    worker_id: str


class Report(NamedTuple):
    """What a worker says of a job that runs."""

    claim: Claim
    seconds: float
    progress: int | None
    stage: str | None
    pace: str | None


class Worker(NamedTuple):
    """How a worker introduces itself."""

    worker_id: str
    lease: timedelta
    job_types: list[str]
    queues: list[str] | None
    concurrency: int
    host: str
    pid: int
    version: str
    process_types: list[str]
    """Those that run in child processes, `children` at once."""
    children: int


def claim(
    worker_id: str, job_types: Sequence[str], batch_size: int, queues: Sequence[str] | None
) -> Query[list[Claim]]:
    params = {"worker_id": worker_id, "job_types": job_types, "batch_size": batch_size, "queues": queues}
    return call("claim_jobs", params, _claims, columns=_COLUMNS, often=True)


def held(worker_id: str) -> Query[list[Claim]]:
    """All that this worker holds, by the database's books."""
    return call("find_claimed_jobs", {"worker_id": worker_id}, _claims, columns=_COLUMNS)


def complete(worker_id: str, done: Sequence[tuple[Claim, Outcome, float]], results: bool) -> Query[set[UUID]]:
    """Reads as the ids that were refused: mostly none. The seconds say how long ago each began."""
    params = {
        "number": len(done),
        "ids": ",".join([claim.id.hex for claim, _, _ in done]),
        "leases": ",".join([str(claim.lease) for claim, _, _ in done]),
        "worker_ids": "\n".join([worker_id] * len(done)),
        "results": "\n".join([outcome.result or "" for _, outcome, _ in done]) if results else None,
        "seconds": ",".join([f"{seconds:.6f}" for _, _, seconds in done]),
    }

    def refused(rows: Rows) -> set[UUID]:
        accepted = rows[0][0]
        return set() if accepted is None else {claim.id for claim, _, _ in done}.difference(accepted)

    return Query(statement("complete_jobs"), params, refused, often=True)


def settle(
    worker_id: str, ended: Sequence[tuple[Claim, Outcome, float]], crash_limit: int
) -> Query[dict[UUID, Status]]:
    """Reads as the new status of those that were accepted."""
    params = {
        "worker_id": worker_id,
        "ids": [claim.id for claim, _, _ in ended],
        "leases": [claim.lease for claim, _, _ in ended],
        "outcomes": [outcome.ending.value for _, outcome, _ in ended],
        "errors": [outcome.error for _, outcome, _ in ended],
        "tracebacks": [outcome.traceback for _, outcome, _ in ended],
        "delays": [outcome.delay for _, outcome, _ in ended],
        "seconds": [seconds for _, _, seconds in ended],
        "crash_limit": crash_limit,
    }
    return call(
        "settle_jobs", params, lambda rows: {job_id: Status(status) for job_id, status in rows}, columns="id, status"
    )


def report(worker_id: str, reports: Sequence[Report]) -> Query[set[UUID]]:
    """Reads as the ids that were accepted."""
    params = {
        "worker_id": worker_id,
        "ids": [each.claim.id for each in reports],
        "leases": [each.claim.lease for each in reports],
        "seconds": [each.seconds for each in reports],
        "progress": [each.progress for each in reports],
        "stages": [each.stage for each in reports],
        "paces": [each.pace for each in reports],
    }
    return call("start_jobs", params, lambda rows: {row[0] for row in rows})


def lost_leases(claims: Sequence[Claim]) -> Query[dict[UUID, bool]]:
    """Those that are not held under this lease any more, and whether they were completed under it."""
    params = {"ids": [claim.id for claim in claims], "leases": [claim.lease for claim in claims]}
    return call(
        "find_lost_claims", params, lambda rows: {row[0]: bool(row[1]) for row in rows}, columns="id, completed"
    )


def next_due(job_types: Sequence[str], queues: Sequence[str] | None, sure: bool) -> Query[float | None]:
    """Seconds until the next job is due, None if there is none; `sure` also finds what was committed late."""
    params = {"job_types": job_types, "queues": queues, "sure": sure}
    return call("next_due", params, lambda rows: rows[0][0], often=True)


def register(worker: Worker) -> Query[None]:
    return call("register_worker", worker._asdict(), _nothing)


def renew(worker_ids: Sequence[str], lease: timedelta) -> Query[None]:
    return call("renew_workers", {"worker_ids": list(worker_ids), "lease": lease}, _nothing)


def recover_worker(
    worker_id: str,
    reason: str,
    crashed: Sequence[UUID],
    overdue: Sequence[UUID],
    crash_limit: int,
    keep: bool,
) -> Query[list[Recovered]]:
    params = {
        "worker_id": worker_id,
        "reason": reason,
        "crashed": list(crashed),
        "overdue": list(overdue),
        "crash_limit": crash_limit,
        "keep": keep,
    }
    return call(
        "recover_worker",
        params,
        lambda rows: [Recovered(row[0], row[1], Status(row[2]), worker_id) for row in rows],
        columns="id, job_type, status",
    )


def recover_lost(crash_limit: int) -> Query[list[Recovered]]:
    return call(
        "recover_lost_workers",
        {"crash_limit": crash_limit},
        lambda rows: [Recovered(row[0], row[1], Status(row[2]), row[3]) for row in rows],
        columns="id, job_type, status, worker_id",
    )


def listen_for_ends(span: timedelta) -> Query[None]:
    """For this long, finished jobs are announced."""
    return call("request_notifications", {"kind": "ends", "for": span}, _nothing)


def listen_for_changes(span: timedelta) -> Query[None]:
    """For this long, changes of running jobs are announced."""
    return call("request_notifications", {"kind": "news", "for": span}, _nothing)


def find_ended(ids: Sequence[UUID]) -> Query[list[UUID]]:
    """Those that have ended, or are not there any more."""
    return call("find_finished", {"ids": list(ids)}, lambda rows: [row[0] for row in rows])


def errors(job_id: UUID) -> Query[list[JobError]]:
    return Query(statement("get_errors"), {"id": job_id}, lambda rows: [JobError._make(row) for row in rows])


def channel(kind: str) -> Query[str]:
    return call("channel", {"kind": kind}, lambda rows: str(rows[0][0]))


def notify_workers(message: str) -> Query[None]:
    return Query(statement("notify_workers"), {"message": message}, _nothing)


_COLUMNS = columns(Claim)

# Claim._make without its check of the length: it runs for every job.
_claim: Callable[[tuple[Any, ...]], Claim] = partial(tuple.__new__, Claim)


def _claims(rows: Rows) -> list[Claim]:
    return list(map(_claim, rows))


def _nothing(_: Rows) -> None:
    return None
