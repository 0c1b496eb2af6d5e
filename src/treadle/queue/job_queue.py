"""The queue without an application: enqueue, claim, finish and manage jobs.

Every method has an async twin with an `a` in front, which runs the same query (treadle.db.queries.jobs).
"""

import builtins
from collections.abc import Generator, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, Unpack, cast
from uuid import UUID

from treadle.db.database import Database, DatabaseError, Source
from treadle.db.queries import enqueueing
from treadle.db.queries import jobs as job_queries
from treadle.db.queries import operations as operation_queries
from treadle.db.queries import worker as worker_queries
from treadle.db.queries.enqueueing import EnqueueOptions
from treadle.db.queries.jobs import AnyJob, ListFilters
from treadle.db.query import Query
from treadle.db.script import adrive, drive
from treadle.text.log import log
from treadle.text.log_redaction import redact_own_log
from treadle.words.after import After, HasId, Waitable, combined, id_of, waits_for
from treadle.words.changes import Action, Pause
from treadle.words.connections import Connections, check_connections
from treadle.words.duration import Duration
from treadle.words.errors import TreadleError
from treadle.words.job import JobError, JobPage, JobRow
from treadle.words.naming import text_within, worker_name
from treadle.words.options import Options, known_options
from treadle.words.payload import PAYLOAD_LIMIT, Json, encode
from treadle.words.status import Status
from treadle.words.unique import Enqueued


class QueueOptions(EnqueueOptions, total=False):
    """The options of enqueue()."""

    after: Waitable | Iterable[Waitable] | None
    """The job waits until these have completed: rows, handles or ids. If one does not complete, the job is cancelled,
    unless it is given as ok_to_fail(…)."""
    workflow: HasId | UUID | str | None
    """The job becomes part of this workflow or batch; or, if this is a job, of the one that it is part of."""


_OPTIONS = Options("JobQueue.enqueue()", ("key", "keys", *QueueOptions.__annotations__))


class JobQueue:
    """The jobs in one schema of a PostgreSQL database.

    `database` is a URL, for which a pool is opened at first use; or your connection, of psycopg, asyncpg, SQLAlchemy or
    Django; or a psycopg pool. On your connection, everything is part of your transaction. By default the URL is taken
    from TREADLE_DATABASE_URL or DATABASE_URL, or an embedded server is started. `worker_id` is the worker of the jobs
    that are claimed; by default it consists of the host, the process id and random characters.
    """

    @known_options("JobQueue()")
    def __init__(
        self,
        database: Source | Database | None = None,
        worker_id: str | None = None,
        *,
        schema: str | None = None,
        payload_limit: int = PAYLOAD_LIMIT,
        connections: Connections | None = None,
    ) -> None:
        redact_own_log()
        self.worker_id = text_within(worker_id or worker_name(), 100, "worker_id")
        self.payload_limit = payload_limit
        if not isinstance(database, Database):
            database = Database(database, schema, check_connections(connections))
        self._database = database

    # Enqueueing. The options are those of QueueOptions; unique=Once("…") names keys of `data`.

    def enqueue(
        self,
        job_type: str,
        data: Json = {},  # noqa: B006 - read only
        *,
        key: str | None = None,
        **options: Unpack[QueueOptions],
    ) -> UUID:
        """Enqueue a job and return its id.

        Jobs with the same `key` run one at a time, in the order in which they were enqueued. With `unique`, it may be
        the id of a job that existed before.
        """
        return self._database.run(self._one(job_type, data, key, options))[0].id

    async def aenqueue(
        self,
        job_type: str,
        data: Json = {},  # noqa: B006
        *,
        key: str | None = None,
        **options: Unpack[QueueOptions],
    ) -> UUID:
        return (await self._database.arun(self._one(job_type, data, key, options)))[0].id

    def enqueue_many(
        self,
        job_type: str,
        data: Iterable[Json],
        *,
        keys: Iterable[str | None] | None = None,
        **options: Unpack[QueueOptions],
    ) -> list[UUID]:
        """Enqueue one job for each payload, all or none, and return their ids in the same order."""
        queries = self._many(job_type, data, keys, options)
        return [each.id for several in self._database.run_together(queries) for each in several]

    async def aenqueue_many(
        self,
        job_type: str,
        data: Iterable[Json],
        *,
        keys: Iterable[str | None] | None = None,
        **options: Unpack[QueueOptions],
    ) -> list[UUID]:
        queries = self._many(job_type, data, keys, options)
        return [each.id for several in await self._database.arun_together(queries) for each in several]

    def _one(self, job_type: str, data: Json, key: str | None, given: QueueOptions) -> Query[builtins.list[Enqueued]]:
        after, workflow, options = _separated(given)
        return enqueueing.enqueue(job_type, data, key, self.payload_limit, None, after, workflow, **options)

    def _many(
        self, job_type: str, data: Iterable[Json], keys: Iterable[str | None] | None, given: QueueOptions
    ) -> builtins.list[Query[builtins.list[Enqueued]]]:
        after, workflow, options = _separated(given)
        return enqueueing.enqueue_many(
            job_type, data, keys, self.payload_limit, after=after, workflow=workflow, **options
        )

    # Working

    def claim(
        self, job_types: Sequence[str], batch_size: int = 10, *, queues: Sequence[str] | None = None
    ) -> list[JobRow]:
        """Claim up to `batch_size` due jobs of these types: the highest priority first, then the oldest."""
        query = job_queries.claim(self.worker_id, job_types, batch_size, queues)
        claimed = self._database.run(query)
        for job, error in claimed.undecodable:
            try:
                self._database.run(job_queries.fail(job, error, final=True))
            except (TreadleError, DatabaseError):
                log.warning("job %s cannot be decoded and could not be failed", job.id, exc_info=True)
        return claimed.jobs

    async def aclaim(
        self, job_types: Sequence[str], batch_size: int = 10, *, queues: Sequence[str] | None = None
    ) -> list[JobRow]:
        query = job_queries.claim(self.worker_id, job_types, batch_size, queues)
        claimed = await self._database.arun(query)
        for job, error in claimed.undecodable:
            try:
                await self._database.arun(job_queries.fail(job, error, final=True))
            except (TreadleError, DatabaseError):
                log.warning("job %s cannot be decoded and could not be failed", job.id, exc_info=True)
        return claimed.jobs

    def start(self, job: AnyJob) -> None:
        """Mark a claimed job as running."""
        self._database.run(job_queries.start(job))

    async def astart(self, job: AnyJob) -> None:
        await self._database.arun(job_queries.start(job))

    def progress(self, job: AnyJob, percent: int | None = None, stage: str | None = None) -> None:
        """Report the progress of a job: 0 to 100 percent, and its current stage. Also counts as a heartbeat."""
        self._database.run(job_queries.progress(job, percent, stage))

    async def aprogress(self, job: AnyJob, percent: int | None = None, stage: str | None = None) -> None:
        await self._database.arun(job_queries.progress(job, percent, stage))

    def event(self, job: AnyJob, name: str, /, **data: Json) -> None:
        """Record an event of a job. It is numbered, stored with the job, and sent to everything that follows it."""
        self._database.run(job_queries.event(job, name, data))

    async def aevent(self, job: AnyJob, name: str, /, **data: Json) -> None:
        await self._database.arun(job_queries.event(job, name, data))

    def complete(self, job: AnyJob, result: Json = None) -> None:
        """Mark a job as completed, with its result."""
        self._database.run(job_queries.complete(job, result, self.payload_limit))

    async def acomplete(self, job: AnyJob, result: Json = None) -> None:
        await self._database.arun(job_queries.complete(job, result, self.payload_limit))

    def complete_many(self, claimed: Sequence[JobRow], results: Sequence[Json] | None = None) -> list[JobRow]:
        """Complete several claimed jobs in one statement. Returns those that were refused: their claim was lost."""
        return self._database.run(job_queries.complete_many(claimed, results, self.payload_limit))

    async def acomplete_many(self, claimed: Sequence[JobRow], results: Sequence[Json] | None = None) -> list[JobRow]:
        return await self._database.arun(job_queries.complete_many(claimed, results, self.payload_limit))

    def fail(self, job: AnyJob, error: object, *, delay: Duration | None = None, final: bool = False) -> None:
        """Fail the current attempt of a job.

        The job is retried after `delay`: by default exponential, 1 s doubling to at most 1 h, with 50 % jitter. After
        the last attempt, or if `final`, the job fails.
        """
        self._database.run(job_queries.fail(job, error, delay, final))

    async def afail(self, job: AnyJob, error: object, *, delay: Duration | None = None, final: bool = False) -> None:
        await self._database.arun(job_queries.fail(job, error, delay, final))

    def release(self, job: AnyJob) -> None:
        """Return a claimed job to its place in the queue, without using an attempt."""
        self._database.run(job_queries.release(job))

    async def arelease(self, job: AnyJob) -> None:
        await self._database.arun(job_queries.release(job))

    def snooze(self, job: AnyJob, delay: Duration) -> None:
        """Return a claimed job to the queue, to run after `delay`, without using an attempt."""
        self._database.run(job_queries.release(job, delay))

    async def asnooze(self, job: AnyJob, delay: Duration) -> None:
        await self._database.arun(job_queries.release(job, delay))

    def heartbeat(self) -> None:
        """Report that this worker is alive. Jobs of a worker without a heartbeat become stale: recover_stale_jobs()."""
        self._database.run(job_queries.heartbeat(self.worker_id))

    async def aheartbeat(self) -> None:
        await self._database.arun(job_queries.heartbeat(self.worker_id))

    # Managing

    def cancel(self, job: AnyJob, reason: str | None = None) -> bool:
        """Cancel a job. If it is claimed, its worker loses it. Returns False if it has finished already.

        Passed as a claimed row, the job is cancelled only if that claim is still valid.
        """
        return self._database.run(job_queries.cancel(job, reason))

    async def acancel(self, job: AnyJob, reason: str | None = None) -> bool:
        return await self._database.arun(job_queries.cancel(job, reason))

    def retry(self, job: AnyJob) -> None:
        """Run a finished job again, with at least one more attempt."""
        self._database.run(job_queries.retry(job))

    async def aretry(self, job: AnyJob) -> None:
        await self._database.arun(job_queries.retry(job))

    def run_now(self, job: AnyJob) -> bool:
        """Make a job due now, if it was enqueued for later or waits for its next attempt. Returns False otherwise."""
        return self._database.run(operation_queries.change_job(Action.RUN_NOW, job))

    async def arun_now(self, job: AnyJob) -> bool:
        return await self._database.arun(operation_queries.change_job(Action.RUN_NOW, job))

    def set_priority(self, job: AnyJob, priority: int) -> bool:
        """Change the priority of a job. That of a claimed job applies to its next attempt. Returns False if it has
        finished, or has this priority."""
        return self._database.run(operation_queries.change_job(Action.PRIORITY, job, priority))

    async def aset_priority(self, job: AnyJob, priority: int) -> bool:
        return await self._database.arun(operation_queries.change_job(Action.PRIORITY, job, priority))

    def delete(self, job: AnyJob) -> bool:
        """Delete a job with its events and logs. Returns False if it is claimed: cancel it first."""
        return self._database.run(operation_queries.change_job(Action.DELETE, job))

    async def adelete(self, job: AnyJob) -> bool:
        return await self._database.arun(operation_queries.change_job(Action.DELETE, job))

    def edit(self, job: AnyJob, data: dict[str, Json]) -> bool:
        """Give these names of the payload other values, before a job runs, or before it is retried. Returns False if it
        is claimed or completed, or if nothing would change."""
        return self._database.run(operation_queries.edit_job(job, encode(data, self.payload_limit)))

    async def aedit(self, job: AnyJob, data: dict[str, Json]) -> bool:
        return await self._database.arun(operation_queries.edit_job(job, encode(data, self.payload_limit)))

    def copy(self, job: AnyJob, data: dict[str, Json] = {}) -> UUID:  # noqa: B006 - read only
        """Enqueue a new job like this one, with these names of the payload changed, and return its id. It is not
        unique, no part of a workflow, and waits for no other job."""
        return self._database.run(operation_queries.copy_job(job, encode(data, self.payload_limit)))

    async def acopy(self, job: AnyJob, data: dict[str, Json] = {}) -> UUID:  # noqa: B006
        return await self._database.arun(operation_queries.copy_job(job, encode(data, self.payload_limit)))

    def pause(self, job_type: str | None = None, queue: str | None = None, *, reason: str | None = None) -> bool:
        """Stop claiming jobs of this type, in this queue; None means any. Claimed jobs continue.

        Returns False if it was already paused; pausing twice is harmless.
        """
        return self._database.run(operation_queries.pause(job_type, queue, reason=reason))

    async def apause(self, job_type: str | None = None, queue: str | None = None, *, reason: str | None = None) -> bool:
        return await self._database.arun(operation_queries.pause(job_type, queue, reason=reason))

    def resume(self, job_type: str | None = None, queue: str | None = None, *, reason: str | None = None) -> bool:
        """End the pause with this type and queue. Returns False if there is none."""
        return self._database.run(operation_queries.resume(job_type, queue, reason=reason))

    async def aresume(
        self, job_type: str | None = None, queue: str | None = None, *, reason: str | None = None
    ) -> bool:
        return await self._database.arun(operation_queries.resume(job_type, queue, reason=reason))

    def pauses(self) -> builtins.list[Pause]:
        """Return the pauses."""
        return self._database.run(operation_queries.find_pauses())

    async def apauses(self) -> builtins.list[Pause]:
        return await self._database.arun(operation_queries.find_pauses())

    def get(self, job: AnyJob) -> JobRow:
        """Return the row of a job as it is now."""
        return self._database.run(job_queries.get_job(job))

    async def aget(self, job: AnyJob) -> JobRow:
        return await self._database.arun(job_queries.get_job(job))

    def errors(self, job: AnyJob) -> builtins.list[JobError]:
        """Return the errors of the failed attempts of a job, oldest first, with traceback, time and worker."""
        return self._database.run(worker_queries.get_errors(job_queries.job_id(job)))

    async def aerrors(self, job: AnyJob) -> builtins.list[JobError]:
        return await self._database.arun(worker_queries.get_errors(job_queries.job_id(job)))

    def list(self, **filters: Unpack[ListFilters]) -> JobPage:
        """Return a page of up to `limit` jobs, newest first, by status, job_type, queue, worker_id or key.

        For the next page, pass the page's `next` as `after`.
        """
        return self._database.run(job_queries.find_newest_jobs(**filters))

    async def alist(self, **filters: Unpack[ListFilters]) -> JobPage:
        return await self._database.arun(job_queries.find_newest_jobs(**filters))

    def counts(self) -> dict[Status, int]:
        """Count the jobs of each status. The time that this takes grows with the table."""
        return self._database.run(job_queries.count_jobs())

    async def acounts(self) -> dict[Status, int]:
        return await self._database.arun(job_queries.count_jobs())

    def recover_stale_jobs(self, timeout: Duration) -> int:
        """Return the jobs of workers without a heartbeat for longer than `timeout` to the queue; return how many.

        Reported progress counts as a heartbeat. If a worker never sent either, the time of its claim counts. Jobs
        without attempts left fail, with the reason in last_error.
        """
        return self._database.run(job_queries.recover(timeout))

    async def arecover_stale_jobs(self, timeout: Duration) -> int:
        return await self._database.arun(job_queries.recover(timeout))

    def prune(self, status: str = Status.COMPLETED, older_than: Duration = "7d", *, batch_size: int = 5000) -> int:
        """Delete the jobs with this status that finished longer ago than `older_than`, in batches; return how many."""
        return drive(_prune(status, older_than, batch_size), self._database.run)

    async def aprune(
        self, status: str = Status.COMPLETED, older_than: Duration = "7d", *, batch_size: int = 5000
    ) -> int:
        return await adrive(_prune(status, older_than, batch_size), self._database.arun)

    # Closing

    def close(self) -> None:
        """Close the pool, if the queue opened it."""
        self._database.close()

    async def aclose(self) -> None:
        await self._database.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _prune(status: str, older_than: Duration, batch_size: int) -> Generator[Query[Any], Any, int]:
    total, reached = 0, None
    while True:
        pruned: int
        pruned, reached = yield job_queries.prune(status, older_than, batch_size, reached or "-infinity")
        total += pruned
        if pruned < batch_size:
            return total


def _separated(given: QueueOptions) -> tuple[builtins.list[After], UUID | None, EnqueueOptions]:
    """What a job waits for, what it is part of, and the other options."""
    _OPTIONS.check(given)
    workflow = given.pop("workflow", None)
    after = combined(waits_for(given.pop("after", None)))
    return after, None if workflow is None else id_of(workflow, "workflow"), cast(EnqueueOptions, given)
