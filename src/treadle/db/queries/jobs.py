"""The queries of the queue, as values. Arguments are checked here, before any SQL.

A change of a JobRow is fenced by its lease number and its worker; a change by a bare id is not fenced.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeAlias, TypedDict
from uuid import UUID

from treadle.db.queries.columns import columns
from treadle.db.queries.rows import Claimed, read_claimed, read_row, row_statement
from treadle.db.query import SCHEMA_TOKEN, Query, Result, Rows, call, statement
from treadle.text.exceptions import clean_error
from treadle.words.duration import Duration, duration
from treadle.words.errors import InvalidArgument, JobNotFound, LeaseLost, WrongStatus
from treadle.words.job import JobPage, JobRow
from treadle.words.naming import int_within, text_within
from treadle.words.payload import EVENT_LIMIT, Json, encode
from treadle.words.status import FINISHED, Status

AnyJob: TypeAlias = JobRow | UUID | str


class ListFilters(TypedDict, total=False):
    """Which jobs are listed. A filter that is left out matches all."""

    status: str | None
    job_type: str | None
    queue: str | None
    worker_id: str | None
    key: str | None
    after: AnyJob | None
    """The `next` of the page before."""
    limit: int
    """Jobs per page. 100 if not given."""


def claim(worker_id: str, job_types: Sequence[str], batch_size: int, queues: Sequence[str] | None) -> Query[Claimed]:
    if isinstance(job_types, str) or isinstance(queues, str):
        raise InvalidArgument(f"job_types and queues must be lists of strings, got {job_types!r} and {queues!r}")
    return call(
        "claim_jobs",
        {
            "worker_id": worker_id,
            "job_types": [text_within(name, 50, "job type") for name in job_types],
            "batch_size": int_within(batch_size, 1, 100_000, "batch_size"),
            "queues": None if queues is None else [text_within(name, 50, "queue") for name in queues],
        },
        read_claimed,
        columns=columns(JobRow),
    )


def start(job: AnyJob) -> Query[None]:
    return _change("start_job", _fence(job), _changed(job, "started"))


def progress(job: AnyJob, percent: int | None, stage: str | None) -> Query[None]:
    params = {
        **_fence(job),
        "progress": None if percent is None else int_within(percent, 0, 100, "progress"),
        "stage": None if stage is None else text_within(stage, 100, "stage"),
    }
    return _change("report_progress", params, _changed(job, "given progress"))


def event(job: AnyJob, name: str, data: dict[str, Json]) -> Query[None]:
    params = {
        **_fence(job),
        "name": text_within(name, 100, "event"),
        "data": encode(data, EVENT_LIMIT, name),
    }
    return _change("record_event", params, _changed(job, "given an event"))


def complete(job: AnyJob, result: Json, payload_limit: int) -> Query[None]:
    params = {**_fence(job), "result": None if result is None else encode(result, payload_limit, "result")}
    return _change("complete_job", params, _changed(job, "completed"), makes_due=True)


def complete_many(jobs: Sequence[JobRow], results: Sequence[Json] | None, payload_limit: int) -> Query[list[JobRow]]:
    """Complete several claimed jobs. Returns those that were refused because their claim was lost."""
    if results is not None and len(results) != len(jobs):
        raise InvalidArgument(f"results must have one element per job, got {len(results)} for {len(jobs)} jobs")
    texts = None
    if results is not None:
        texts = "\n".join(
            "" if result is None else encode(result, payload_limit, f"results[{nth}]")
            for nth, result in enumerate(results)
        )

    def lost(rows: Rows) -> list[JobRow]:
        if rows[0][0] is None:
            return []
        # If the same job was given twice, only the newer claim of it can have been accepted.
        newest = {job.id: job.lease for job in sorted(jobs, key=lambda job: job.lease)}
        accepted = {(job_id, newest[job_id]) for job_id in rows[0][0]}
        return [job for job in jobs if (job.id, job.lease) not in accepted]

    params = {
        "number": len(jobs),
        "ids": ",".join([job.id.hex for job in jobs]),
        "leases": ",".join([str(job.lease) for job in jobs]),
        "worker_ids": "\n".join([job.worker_id or "" for job in jobs]),
        "results": texts,
        "seconds": None,
        "lock_timeout": None,
    }
    return Query(statement("complete_jobs"), params, lost, makes_due=True)


def fail(job: AnyJob, error: object, delay: Duration | None = None, final: bool = False) -> Query[None]:
    params = {
        **_fence(job),
        "error": clean_error(error),
        "delay": None if delay is None else duration(delay, "delay"),
        "final": final,
    }
    return _change("fail_job", params, _changed(job, "failed"), makes_due=True)


def release(job: AnyJob, delay: Duration | None = None) -> Query[None]:
    params = {**_fence(job), "delay": None if delay is None else duration(delay, "delay")}
    return _change("release_job", params, _changed(job, "given back"), makes_due=True)


def cancel(job: AnyJob, reason: str | None) -> Query[bool]:
    """Returns False if the job has finished already."""
    # The row of a pending job is not a claim: it is cancelled by its id, even if it has been claimed since.
    is_claim = isinstance(job, JobRow) and job.status in (Status.CLAIMED, Status.RUNNING)
    target = job if is_claim else job_id(job)
    params = {**_fence(target), "reason": None if reason is None else clean_error(reason)}

    def read(rows: Rows) -> bool:
        changed, status = rows[0]
        if isinstance(target, JobRow) or status is None or not Status(status).finished:
            _changed(target, "cancelled")(rows)
        return bool(changed)

    return _change("cancel_job", params, read, makes_due=True)


def retry(job: AnyJob) -> Query[None]:
    target = job_id(job)
    return _change("retry_job", {"id": target}, _changed(target, "retried"), makes_due=True)


def get_job(job: AnyJob, *, payloads: bool = True) -> Query[JobRow]:
    """Without `payloads`, the job has no payload, result, checkpoint and headers."""
    target = job_id(job)

    def read(rows: Rows) -> JobRow:
        if not rows:
            raise JobNotFound(target)
        return read_row(rows[0])

    return Query(row_statement("get_job", payloads), {"id": target}, read)


def find_newest_jobs(
    *,
    status: str | None = None,
    job_type: str | None = None,
    queue: str | None = None,
    worker_id: str | None = None,
    key: str | None = None,
    after: AnyJob | None = None,
    limit: int = 100,
) -> Query[JobPage]:
    int_within(limit, 1, 10_000, "limit")
    wanted = {"job_type": job_type, "queue": queue, "worker_id": worker_id, "key": key}
    given = [column for column, value in wanted.items() if value is not None]
    filters = [f"and {column} operator(pg_catalog.=) %({column})s" for column in given]
    if after is not None:
        filters.append("and id operator(pg_catalog.<) %(after)s")
    if status is not None:
        # In the text, not as a parameter: a parameter cannot prove a partial index's condition.
        filters.append(f"and status operator(pg_catalog.=) '{status_of(status)}'")
    text = row_statement("find_newest_jobs").replace("/* and the filters */", "\n".join(filters))

    def read(rows: Rows) -> JobPage:
        jobs = [read_row(row) for row in rows[:limit]]
        return JobPage(jobs, jobs[-1].id if len(rows) > limit else None)

    params = {**wanted, "after": None if after is None else job_id(after), "limit": limit + 1}
    return Query(text, params, read)


def count_jobs() -> Query[dict[Status, int]]:
    def read(rows: Rows) -> dict[Status, int]:
        found: dict[str, int] = dict(rows)
        return {status: found.get(status.value, 0) for status in Status}

    return Query(statement("count_jobs"), {}, read)


def recover(timeout: Duration) -> Query[int]:
    return call("recover_stale_jobs", {"timeout": duration(timeout, "timeout")}, _only_value)


def prune(
    status: str, age: Duration, batch_size: int, after: datetime | str | None = "-infinity"
) -> Query[tuple[int, datetime | None]]:
    """`after`: where the call before has stopped; null: where the last one of any worker has."""
    if status_of(status) not in FINISHED:
        raise InvalidArgument(f"only completed, failed or cancelled jobs can be pruned, got {status!r}")
    params = {
        "status": status_of(status).value,
        "age": duration(age, "older_than"),
        "limit": int_within(batch_size, 1, 100_000, "batch_size"),
        "after": after,
    }
    return call("prune_jobs", params, lambda rows: (rows[0][0], rows[0][1]), columns="pruned, reached")


def heartbeat(worker_id: str) -> Query[None]:
    return call("heartbeat", {"worker_id": worker_id}, lambda _: None)


def tick() -> Query[int]:
    return call("tick", {}, _only_value)


def job_id(job: AnyJob) -> UUID:
    if isinstance(job, JobRow):
        return job.id
    if isinstance(job, UUID):
        return job
    try:
        return UUID(job)
    except (ValueError, AttributeError, TypeError):
        raise InvalidArgument(f"expected the id of a job (a UUID) or its row, got {job!r}") from None


def status_of(status: str) -> Status:
    try:
        return Status(status)
    except ValueError:
        raise InvalidArgument(f"status must be one of {', '.join(Status)}, got {status!r}") from None


def _fence(job: AnyJob) -> dict[str, object]:
    if isinstance(job, JobRow):
        return {"id": job.id, "lease": job.lease, "worker_id": job.worker_id}
    return {"id": job_id(job), "lease": None, "worker_id": None}


def _change(
    function: str, params: dict[str, object], read: Callable[[Rows], Result], makes_due: bool = False
) -> Query[Result]:
    """Call a function that returns whether it changed the job, and select the job's status if it did not."""
    called = call(function, params, read).text.removeprefix("select ")
    status = f"{SCHEMA_TOKEN}job_status(%(id)s)"
    text = f"select changed, case when not changed then {status} end from {called} as changed"
    return Query(text, params, read, makes_due)


def _changed(job: AnyJob, change: str) -> Callable[[Rows], None]:
    def read(rows: Rows) -> None:
        changed, status = rows[0]
        if changed:
            return
        if isinstance(job, JobRow):
            raise LeaseLost(job.id, job.lease)
        if status is None:
            raise JobNotFound(job_id(job))
        raise WrongStatus(job_id(job), status, change)

    return read


def _only_value(rows: Rows) -> int:
    value: int = rows[0][0]
    return value
