"""Queries of a worker: claims and outcomes in batches, liveness, recovery, notifications."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from treadle.db.queries.columns import columns
from treadle.db.query import Query, Rows, call, statement
from treadle.words.job import Claim, JobError
from treadle.words.outcome import Outcome
from treadle.words.status import Status

LOCK_TIMEOUT = "100ms"
"""How long outcomes wait for a row that another transaction has locked, before the worker postpones them."""


class Recovered(NamedTuple):
    """A job that was taken back from a dead worker, and its new status."""

    id: UUID
    job_type: str
    status: Status
    worker_id: str


class Report(NamedTuple):
    """A worker's report about a job that it runs."""

    claim: Claim
    seconds: float
    progress: int | None
    stage: str | None
    pace: str | None


class Worker(NamedTuple):
    """How a worker registers."""

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
    handlers: list[str | None]
    """The functions of the job types, as module.function; None: unknown."""


class Claimed(NamedTuple):
    claims: list[Claim]
    due: float | None
    """Seconds until the next job is due; None: there is none, or the claim did not listen."""


def claim(
    worker_id: str,
    job_types: Sequence[str],
    batch_size: int,
    queues: Sequence[str] | None,
    *,
    listen: bool = False,
    answered: int | None = None,
) -> Query[Claimed]:
    """`listen`: if there are fewer jobs, do what `next_due` does: ask for a notification, say when the next is due."""
    params = {
        "worker_id": worker_id,
        "job_types": job_types,
        "batch_size": batch_size,
        "queues": queues,
        "listen": listen,
        "answered": _number(answered),
    }
    return call("claim_work", params, _claimed, columns=", ".join([*Claim._fields, "due"]), often=True)


def _claimed(rows: Rows) -> Claimed:
    """Only the last row has no id: it says when the next job is due."""
    if not rows or rows[-1][0] is not None:
        return Claimed([_claim(row[:-1]) for row in rows], None)
    return Claimed([_claim(row[:-1]) for row in rows[:-1]], rows[-1][-1])


def _number(answered: int | None) -> int:
    return -1 if answered is None else answered


def find_claimed(worker_id: str) -> Query[list[Claim]]:
    """All jobs that this worker has claimed, according to the database."""
    return call("find_claimed_jobs", {"worker_id": worker_id}, _claims, columns=_COLUMNS)


def complete(worker_id: str, done: Sequence[tuple[Claim, Outcome, float]], results: bool) -> Query[set[UUID]]:
    """Complete jobs. Returns the ids that were refused, usually none. `seconds` is how long ago each started."""
    if len(done) == 1:
        return _complete_one(worker_id, *done[0])
    params = {
        "number": len(done),
        "ids": ",".join([claim.id.hex for claim, _, _ in done]),
        "leases": ",".join([str(claim.lease) for claim, _, _ in done]),
        "worker_ids": "\n".join([worker_id] * len(done)),
        "results": "\n".join([outcome.result or "" for _, outcome, _ in done]) if results else None,
        "seconds": ",".join([f"{seconds:.6f}" for _, _, seconds in done]),
        "lock_timeout": LOCK_TIMEOUT,
    }

    def refused(rows: Rows) -> set[UUID]:
        accepted = rows[0][0]
        return set() if accepted is None else {claim.id for claim, _, _ in done}.difference(accepted)

    return Query(statement("complete_jobs"), params, refused, often=True)


def _complete_one(worker_id: str, claim: Claim, outcome: Outcome, seconds: float) -> Query[set[UUID]]:
    params = {
        "id": claim.id,
        "result": outcome.result or None,
        "lease": claim.lease,
        "worker_id": worker_id,
        "seconds": seconds,
        "lock_timeout": LOCK_TIMEOUT,
    }

    def refused(rows: Rows) -> set[UUID]:
        return {claim.id} if rows[0][0] is None else set()

    return Query(statement("complete_job"), params, refused, often=True)


def start_once(worker_id: str, claim: Claim) -> Query[bool]:
    """Begin an attempt that must not be repeated. False: it has begun before under this claim, or the claim is lost."""
    params = {"id": claim.id, "lease": claim.lease, "worker_id": worker_id, "lock_timeout": LOCK_TIMEOUT}
    return Query(statement("start_once"), params, lambda rows: bool(rows[0][0]))


class Replaced(NamedTuple):
    accepted: bool
    """False: the claim is lost."""
    problem: str | None
    """Why the other jobs cannot be enqueued."""


def replace(worker_id: str, claim: Claim, outcome: Outcome, seconds: float) -> Query[Replaced]:
    """End an attempt whose handler has returned a replacement, and enqueue that."""
    given = json.loads(outcome.result or "{}")
    params = {
        "worker_id": worker_id,
        "id": claim.id,
        "lease": claim.lease,
        "seconds": seconds,
        "blocks": json.dumps(given["blocks"]),
        "nths": given["nths"],
        "stored": [UUID(each) for each in given["stored"]],
        "lock_timeout": LOCK_TIMEOUT,
    }
    return Query(statement("replace_job"), params, lambda rows: Replaced._make(rows[0]), makes_due=True)


def settle(worker_id: str, done: Sequence[tuple[Claim, Outcome, float]], crash_limit: int) -> Query[dict[UUID, Status]]:
    """Write the other outcomes. Returns the new status of each job that was accepted."""
    params = {
        "worker_id": worker_id,
        "ids": [claim.id for claim, _, _ in done],
        "leases": [claim.lease for claim, _, _ in done],
        "outcomes": [outcome.ending.value for _, outcome, _ in done],
        "errors": [outcome.error for _, outcome, _ in done],
        "tracebacks": [outcome.traceback for _, outcome, _ in done],
        "delays": [outcome.delay for _, outcome, _ in done],
        "seconds": [seconds for _, _, seconds in done],
        "limited_for": [outcome.limited_for for _, outcome, _ in done],
        "crash_limit": crash_limit,
        "lock_timeout": LOCK_TIMEOUT,
    }
    return Query(statement("settle_claimed"), params, lambda rows: {job_id: Status(status) for job_id, status in rows})


def find_locked(ids: Sequence[UUID]) -> Query[set[UUID]]:
    """Those of the jobs whose rows other transactions have locked."""
    return Query(statement("find_locked"), {"ids": list(ids)}, lambda rows: {row[0] for row in rows})


def report(worker_id: str, reports: Sequence[Report]) -> Query[set[UUID]]:
    """Report running jobs. Returns the ids that were accepted."""
    params = {
        "worker_id": worker_id,
        "ids": [each.claim.id for each in reports],
        "leases": [each.claim.lease for each in reports],
        "seconds": [each.seconds for each in reports],
        "progress": [each.progress for each in reports],
        "stages": [each.stage for each in reports],
        "paces": [each.pace for each in reports],
    }
    return call("report_jobs", params, lambda rows: {row[0] for row in rows})


def find_lost_claims(claims: Sequence[Claim]) -> Query[dict[UUID, bool]]:
    """The claims that are no longer valid, and whether their job was completed under that claim."""
    params = {"ids": [claim.id for claim in claims], "leases": [claim.lease for claim in claims]}
    return call(
        "find_lost_claims", params, lambda rows: {row[0]: bool(row[1]) for row in rows}, columns="id, completed"
    )


class Due(NamedTuple):
    seconds: float | None
    """Until the next job is due; None: there is none."""
    concurrency: int | None
    """What an operator has set for the worker."""


def is_child_free_elsewhere(worker_id: str, claims: Sequence[Claim]) -> Query[bool]:
    """Whether another worker that serves such jobs has a free child process."""
    types, queues = {each.job_type for each in claims}, {each.queue for each in claims}
    params = {"worker_id": worker_id, "job_types": sorted(types), "queues": sorted(queues)}
    return call("is_child_free_elsewhere", params, lambda rows: bool(rows[0][0]))


def next_due(
    worker_id: str, job_types: Sequence[str], queues: Sequence[str] | None, sure: bool, answered: int | None = None
) -> Query[Due]:
    """When the next job is due. `sure` also finds jobs that were committed late. `answered` is the number of the last
    notification if this worker answers it, 0 if another one does, None if that is unknown."""
    params = {
        "worker_id": worker_id,
        "job_types": job_types,
        "queues": queues,
        "sure": sure,
        "answered": _number(answered),
    }
    return Query(statement("next_due"), params, lambda rows: Due._make(rows[0]), often=True)


class AsleepLook(NamedTuple):
    """What a worker that sleeps asks."""

    seconds: float | None
    """Until there is something to do; None: nothing is known."""
    concurrency: int | None
    """What an operator has set for the worker."""
    losses: bool
    """Whether a worker is lost and not recovered."""
    next_loss: float | None
    """In how many seconds a lease runs out, if it is not renewed before."""


def look_asleep(
    worker_id: str, job_types: Sequence[str], queues: Sequence[str] | None, declared: Sequence[str]
) -> Query[AsleepLook]:
    """Whether there is something to do for a worker that sleeps. `declared` are the digests of its schedules."""
    params = {"worker_id": worker_id, "job_types": list(job_types), "queues": queues, "declared": list(declared)}
    return Query(statement("look_asleep"), params, lambda rows: AsleepLook._make(rows[0]))


def get_concurrency(worker_id: str) -> Query[int | None]:
    """What an operator has set for the worker."""
    return Query(statement("get_concurrency"), {"worker_id": worker_id}, lambda rows: rows[0][0] if rows else None)


def register(worker: Worker) -> Query[None]:
    return call("register_worker", worker._asdict(), _nothing)


def renew(worker_ids: Sequence[str], lease: timedelta, asleep: bool = False) -> Query[None]:
    """`asleep`: they claim nothing before the next renewal."""
    return call("renew_workers", {"worker_ids": list(worker_ids), "lease": lease, "asleep": asleep}, _nothing)


def report_stuck(
    worker_id: str, kind: str | None, seconds: float | None, job: UUID | None, stack: str | None
) -> Query[None]:
    """The worker's event loop has not run for so many seconds; with None, it runs."""
    params = {"worker_id": worker_id, "kind": kind, "seconds": seconds, "job": job, "stack": stack}
    return call("report_stuck", params, _nothing)


class Unbegun(NamedTuple):
    id: UUID
    seconds: float
    """How long ago it was claimed."""


def find_unbegun(
    worker_id: str, begun: Sequence[UUID], here: int, in_children: int, seconds: float
) -> Query[Unbegun | None]:
    """The oldest job that the worker claimed so many seconds ago and should have begun."""
    params = {
        "worker_id": worker_id,
        "begun": list(begun),
        "here": here,
        "in_children": in_children,
        "seconds": seconds,
    }
    return call("find_unbegun", params, lambda rows: Unbegun._make(rows[0]) if rows else None, columns="id, seconds")


def report_stopped_children(worker_id: str, stopped: Sequence[tuple[int, UUID, float, bool]]) -> Query[None]:
    """These child processes were stopped so many seconds ago, or have been starting since then, each with its job; no
    other ones."""
    processes, jobs, seconds, starting = [[each[nth] for each in stopped] for nth in range(4)]
    params: dict[str, Any] = {"processes": processes, "jobs": jobs, "seconds": seconds, "starting": starting}
    params |= {"worker_id": worker_id}
    return call("report_stopped_children", params, _nothing)


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


class ServerTime(NamedTuple):
    clock: datetime
    jumps: int
    """Grows with each jump of the clock that is noted."""
    losses: bool
    """Whether, by that clock, a worker is lost and not recovered."""
    next_loss: float | None = None
    """In how many seconds a lease runs out, if it is not renewed before. None: there are no live workers."""


def get_clock_and_losses() -> Query[ServerTime]:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)

    def read(rows: Rows) -> ServerTime:
        ((microseconds, *others),) = rows
        return ServerTime(epoch + timedelta(microseconds=microseconds), *others)

    return call("clock_and_losses", {}, read, columns="clock, jumps, losses, next_loss")


def note_clock_jump(before: datetime, after: datetime) -> Query[bool]:
    """Note that the server's clock shows `after` instead of `before`. False: that was noted already."""
    return call("note_clock_jump", {"before": before, "after": after}, lambda rows: rows[0][0])


def recover_lost_workers(
    crash_limit: int, now: datetime | None = None, watched: float | None = None
) -> Query[list[Recovered]]:
    """`now` is the server's clock as the caller has just read it, `watched` for how many seconds it did not jump."""
    params: dict[str, object] = {"crash_limit": crash_limit}
    if now is not None and watched is not None:
        params |= {"now": now, "watched": timedelta(seconds=watched)}
    return call("recover_lost_workers", params, _recovered, columns=_RECOVERED)


def recover_unregistered(crash_limit: int) -> Query[list[Recovered]]:
    return call("recover_unregistered", {"crash_limit": crash_limit}, _recovered, columns=_RECOVERED)


def request_finish_notifications(span: timedelta) -> Query[None]:
    """For this long, the database notifies of finished jobs."""
    return call("request_notifications", {"kind": "ends", "for": span}, _nothing)


def request_change_notifications(span: timedelta) -> Query[None]:
    """For this long, the database notifies of changes of running jobs."""
    return call("request_notifications", {"kind": "news", "for": span}, _nothing)


def find_finished(ids: Sequence[UUID]) -> Query[list[UUID]]:
    """The jobs of these that have finished or no longer exist."""
    return call("find_finished", {"ids": list(ids)}, lambda rows: [row[0] for row in rows])


def get_errors(job_id: UUID) -> Query[list[JobError]]:
    return Query(statement("get_errors"), {"id": job_id}, lambda rows: [JobError._make(row) for row in rows])


def get_channel(kind: str) -> Query[str]:
    return call("channel", {"kind": kind}, lambda rows: str(rows[0][0]))


def notify_workers(message: str) -> Query[None]:
    return Query(statement("notify_workers"), {"message": message}, _nothing)


def announce_leaving(worker_id: str) -> Query[None]:
    """Tell the peers of this worker that it no longer looks for jobs."""
    return notify_workers(f"left {worker_id}")


_COLUMNS = columns(Claim)
_RECOVERED = "id, job_type, status, worker_id"

# Claim._make without its check of the length: it runs for every job.
_claim: Callable[[tuple[Any, ...]], Claim] = partial(tuple.__new__, Claim)


def _claims(rows: Rows) -> list[Claim]:
    return list(map(_claim, rows))


def _recovered(rows: Rows) -> list[Recovered]:
    return [Recovered(row[0], row[1], Status(row[2]), row[3]) for row in rows]


def _nothing(_: Rows) -> None:
    return None


def find_unknown_types(known: Sequence[str]) -> Query[list[str]]:
    """Job types with due jobs that are none of these, and that no live worker serves."""
    return Query(statement("find_unknown_types"), {"known": list(known)}, lambda rows: [name for (name,) in rows])
