"""The queue by hand: enqueue, claim, finish, and look after jobs.

Every method has an async twin with an `a` in front. Both run the same query values (treadle.db.queries.jobs); only the
way of waiting differs.
"""

import builtins
import logging
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self, Unpack
from uuid import UUID

from treadle.db.database import Database, DatabaseError, Source
from treadle.db.queries import jobs
from treadle.db.queries import operations as operate
from treadle.db.queries import worker as work
from treadle.db.queries.jobs import AnyJob, EnqueueOptions, ListFilters
from treadle.words.changes import Pause
from treadle.words.duration import Duration
from treadle.words.errors import TreadleError
from treadle.words.job import JobError, JobPage, JobRow
from treadle.words.naming import SCHEMA, text_within, worker_name
from treadle.words.payload import PAYLOAD_LIMIT, Json
from treadle.words.status import Status

log = logging.getLogger("treadle")

# Whoever claims keeps the lanes' floors moving: see sql/functions/tick.sql.
TICK_SECONDS = 0.5


class JobQueue:
    """Jobs in one schema of a PostgreSQL database.

    `database` is a URL (a pool is opened at first use), a connection of yours (of psycopg, asyncpg, SQLAlchemy or
    Django), or a psycopg pool; on your connection everything happens inside your transaction. Left out, it is
    TREADLE_DATABASE_URL, else DATABASE_URL, else an embedded server. `worker_id` names the holder of what is claimed;
    left out, it is made of host, process and chance.
    """

    def __init__(
        self,
        database: Source | Database | None = None,
        worker_id: str | None = None,
        *,
        schema: str = SCHEMA,
        payload_limit: int = PAYLOAD_LIMIT,
        pool_size: int = 10,
    ) -> None:
        self.worker_id = text_within(worker_id or worker_name(), 100, "worker_id")
        self.payload_limit = payload_limit
        self._database = database if isinstance(database, Database) else Database(database, schema, pool_size)
        self._next_tick = 0.0

    # Enqueueing. The options are those of EnqueueOptions: priority, queue, run_at, delay, max_attempts.

    def enqueue(
        self,
        job_type: str,
        data: Json = {},  # noqa: B006 - read only
        *,
        key: str | None = None,
        unique: str | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> UUID:
        """Put one job into the queue and return its id.

        Jobs with the same `key` run one at a time, in the order they were enqueued. While a job of this type with the
        same `unique` has not ended, none is added, and that one's id is returned.
        """
        query = jobs.enqueue(job_type, data, key, self.payload_limit, unique, **options)
        return self._database.run(query)[0]

    async def aenqueue(
        self,
        job_type: str,
        data: Json = {},  # noqa: B006
        *,
        key: str | None = None,
        unique: str | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> UUID:
        query = jobs.enqueue(job_type, data, key, self.payload_limit, unique, **options)
        return (await self._database.arun(query))[0]

    def enqueue_many(
        self,
        job_type: str,
        data: Iterable[Json],
        *,
        keys: Iterable[str | None] | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> list[UUID]:
        """Put one job per payload into the queue, all or none, and return their ids in the same order."""
        queries = jobs.enqueue_many(job_type, data, keys, self.payload_limit, **options)
        return [job_id for ids in self._database.run_together(queries) for job_id in ids]

    async def aenqueue_many(
        self,
        job_type: str,
        data: Iterable[Json],
        *,
        keys: Iterable[str | None] | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> list[UUID]:
        queries = jobs.enqueue_many(job_type, data, keys, self.payload_limit, **options)
        return [job_id for ids in await self._database.arun_together(queries) for job_id in ids]

    # Working

    def claim(
        self, job_types: Sequence[str], batch_size: int = 10, *, queues: Sequence[str] | None = None
    ) -> list[JobRow]:
        """Take up to `batch_size` due jobs of these types: highest priority first, then oldest first."""
        query = jobs.claim(self.worker_id, job_types, batch_size, queues)
        if self._tick_is_due():
            self._database.run(jobs.tick())
        claimed = self._database.run(query)
        for job, error in claimed.undecodable:
            try:
                self._database.run(jobs.fail(job, error, final=True))
            except (TreadleError, DatabaseError):
                log.warning("job %s cannot be read and could not be failed", job.id, exc_info=True)
        return claimed.jobs

    async def aclaim(
        self, job_types: Sequence[str], batch_size: int = 10, *, queues: Sequence[str] | None = None
    ) -> list[JobRow]:
        query = jobs.claim(self.worker_id, job_types, batch_size, queues)
        if self._tick_is_due():
            await self._database.arun(jobs.tick())
        claimed = await self._database.arun(query)
        for job, error in claimed.undecodable:
            try:
                await self._database.arun(jobs.fail(job, error, final=True))
            except (TreadleError, DatabaseError):
                log.warning("job %s cannot be read and could not be failed", job.id, exc_info=True)
        return claimed.jobs

    def start(self, job: AnyJob) -> None:
        """The claimed job begins to run."""
        self._database.run(jobs.start(job))

    async def astart(self, job: AnyJob) -> None:
        await self._database.arun(jobs.start(job))

    def progress(self, job: AnyJob, percent: int | None = None, stage: str | None = None) -> None:
        """How far the job is, 0 to 100, and a word for what it is doing. Also a sign of life."""
        self._database.run(jobs.progress(job, percent, stage))

    async def aprogress(self, job: AnyJob, percent: int | None = None, stage: str | None = None) -> None:
        await self._database.arun(jobs.progress(job, percent, stage))

    def event(self, job: AnyJob, name: str, /, **data: Json) -> None:
        """Something happened: kept with the job, numbered, and told to whoever listens."""
        self._database.run(jobs.event(job, name, data))

    async def aevent(self, job: AnyJob, name: str, /, **data: Json) -> None:
        await self._database.arun(jobs.event(job, name, data))

    def complete(self, job: AnyJob, result: Json = None) -> None:
        """The job is done."""
        self._database.run(jobs.complete(job, result, self.payload_limit))

    async def acomplete(self, job: AnyJob, result: Json = None) -> None:
        await self._database.arun(jobs.complete(job, result, self.payload_limit))

    def complete_many(self, claimed: Sequence[JobRow], results: Sequence[Json] | None = None) -> list[JobRow]:
        """These jobs are done, in one statement. Returns those whose lease was lost: they are not."""
        return self._database.run(jobs.complete_many(claimed, results, self.payload_limit))

    async def acomplete_many(self, claimed: Sequence[JobRow], results: Sequence[Json] | None = None) -> list[JobRow]:
        return await self._database.arun(jobs.complete_many(claimed, results, self.payload_limit))

    def fail(self, job: AnyJob, error: object, *, delay: Duration | None = None, final: bool = False) -> None:
        """The attempt failed. It is tried again after `delay` (1, 2, 4 … seconds if not given), unless that was the
        last attempt or it is `final`: then the job has failed."""
        self._database.run(jobs.fail(job, error, delay, final))

    async def afail(self, job: AnyJob, error: object, *, delay: Duration | None = None, final: bool = False) -> None:
        await self._database.arun(jobs.fail(job, error, delay, final))

    def release(self, job: AnyJob) -> None:
        """Give the job back unworked: to its old place, without using an attempt."""
        self._database.run(jobs.release(job))

    async def arelease(self, job: AnyJob) -> None:
        await self._database.arun(jobs.release(job))

    def snooze(self, job: AnyJob, delay: Duration) -> None:
        """Give the job back for later, without using an attempt."""
        self._database.run(jobs.release(job, delay))

    async def asnooze(self, job: AnyJob, delay: Duration) -> None:
        await self._database.arun(jobs.release(job, delay))

    def heartbeat(self) -> None:
        """This worker is alive: as long as it says so more often than the timeout, its jobs are not stale."""
        self._database.run(jobs.heartbeat(self.worker_id))

    async def aheartbeat(self) -> None:
        await self._database.arun(jobs.heartbeat(self.worker_id))

    # Looking, and looking after

    def cancel(self, job: AnyJob, reason: str | None = None) -> None:
        """End a job that has not ended. A holder loses its lease. Given as a claimed row it is fenced by that claim."""
        self._database.run(jobs.cancel(job, reason))

    async def acancel(self, job: AnyJob, reason: str | None = None) -> None:
        await self._database.arun(jobs.cancel(job, reason))

    def retry(self, job: AnyJob) -> None:
        """Run a job that has ended again, with at least one more attempt."""
        self._database.run(jobs.retry(job))

    async def aretry(self, job: AnyJob) -> None:
        await self._database.arun(jobs.retry(job))

    def pause(self, job_type: str | None = None, queue: str | None = None, *, reason: str | None = None) -> bool:
        """Let no more jobs of this type, in this queue (None: any), be claimed; what is held goes on.

        False: it was paused already.
        """
        return self._database.run(operate.pause(job_type, queue, reason=reason))

    async def apause(self, job_type: str | None = None, queue: str | None = None, *, reason: str | None = None) -> bool:
        return await self._database.arun(operate.pause(job_type, queue, reason=reason))

    def resume(self, job_type: str | None = None, queue: str | None = None, *, reason: str | None = None) -> bool:
        """End a pause, named as it was made. False: there is none."""
        return self._database.run(operate.resume(job_type, queue, reason=reason))

    async def aresume(
        self, job_type: str | None = None, queue: str | None = None, *, reason: str | None = None
    ) -> bool:
        return await self._database.arun(operate.resume(job_type, queue, reason=reason))

    def pauses(self) -> builtins.list[Pause]:
        """What is paused."""
        return self._database.run(operate.find_pauses())

    async def apauses(self) -> builtins.list[Pause]:
        return await self._database.arun(operate.find_pauses())

    def get(self, job: AnyJob) -> JobRow:
        """The job as it is now."""
        return self._database.run(jobs.get(job))

    async def aget(self, job: AnyJob) -> JobRow:
        return await self._database.arun(jobs.get(job))

    def errors(self, job: AnyJob) -> builtins.list[JobError]:
        """Why each of its attempts failed that did, oldest first, with traceback, time and worker."""
        return self._database.run(work.errors(jobs.job_id(job)))

    async def aerrors(self, job: AnyJob) -> builtins.list[JobError]:
        return await self._database.arun(work.errors(jobs.job_id(job)))

    def list(self, **filters: Unpack[ListFilters]) -> JobPage:
        """Jobs, newest first, by status, job_type, queue, worker_id or key, `limit` to a page.

        For the next page give the page's `next` as `after`.
        """
        return self._database.run(jobs.list_jobs(**filters))

    async def alist(self, **filters: Unpack[ListFilters]) -> JobPage:
        return await self._database.arun(jobs.list_jobs(**filters))

    def counts(self) -> dict[Status, int]:
        """How many jobs there are of each status. Counts rows: its time grows with the table."""
        return self._database.run(jobs.count())

    async def acounts(self) -> dict[Status, int]:
        return await self._database.arun(jobs.count())

    def recover_stale_jobs(self, timeout: Duration) -> int:
        """Give back the jobs of holders that were silent for longer than the timeout; return how many.

        A holder is alive by heartbeats and by the progress it reports; one that never sent either is judged by the age
        of its claim. Jobs without attempts left end as failed, with the reason in last_error.
        """
        return self._database.run(jobs.recover(timeout))

    async def arecover_stale_jobs(self, timeout: Duration) -> int:
        return await self._database.arun(jobs.recover(timeout))

    def prune(self, status: str = Status.COMPLETED, older_than: Duration = "7d", *, batch_size: int = 5000) -> int:
        """Delete jobs that ended with this status longer ago than that, batch by batch; return how many."""
        total, reached = 0, None
        while True:
            query = jobs.prune(status, older_than, batch_size, reached)
            pruned, reached = self._database.run(query)
            total += pruned
            if pruned < batch_size:
                return total

    async def aprune(
        self, status: str = Status.COMPLETED, older_than: Duration = "7d", *, batch_size: int = 5000
    ) -> int:
        total, reached = 0, None
        while True:
            query = jobs.prune(status, older_than, batch_size, reached)
            pruned, reached = await self._database.arun(query)
            total += pruned
            if pruned < batch_size:
                return total

    # Closing

    def close(self) -> None:
        """Close the pool, if it is ours."""
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

    def _tick_is_due(self) -> bool:
        # In a caller's transaction the floors would move only at its end, and lock out other ticks until then.
        if not self._database.owned or time.monotonic() < self._next_tick:
            return False
        self._next_tick = time.monotonic() + TICK_SECONDS
        return True
