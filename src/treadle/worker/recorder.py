"""Writes what handlers tell and log: gathered for a moment, then all jobs' in one statement.

Nothing leaves a job's outbox before it is known to be written, and writing it twice does no harm. The completer has it
write what is left before a job's end is.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from treadle.attempt.job import Job
from treadle.attempt.outbox import LOG_HEAD, LOG_TAIL, Outbox
from treadle.db.queries import events as event_queries
from treadle.db.queries import logs as log_queries
from treadle.db.queries import worker as work
from treadle.db.query import Query
from treadle.db.reconnecting import DatabaseUnavailable, ReconnectingConnection, RowLocked, reconnect_delay
from treadle.words.claim import Claim
from treadle.words.clock import now
from treadle.words.errors import DatabaseUnreachable
from treadle.words.record import Logged, Told

log = logging.getLogger("treadle")
Sent = TypeVar("Sent", Told, Logged)

# Events are live within a tenth of a second, and come in batches all the same.
GATHER_SECONDS = 0.02
# Of one job in one statement.
EVENTS = 1000
# In one statement, in characters: it has to be written within a few seconds, and making it blocks the loop.
SIZE = 1024 * 1024
FLUSH_SECONDS = 10.0
# Before a row that somebody holds is tried again.
LOCKED_SECONDS = 0.5


class Recorder:
    def __init__(
        self, line: ReconnectingConnection, worker_id: str, away: Callable[[DatabaseUnavailable | None], None]
    ) -> None:
        self._line = line
        self._worker_id = worker_id
        self._away = away
        self._loop = asyncio.get_running_loop()
        self._bell = asyncio.Event()
        self._rung = False
        self._turn = asyncio.Lock()
        self._jobs: dict[Job, None] = {}  # not by id: something of an earlier attempt may be left, and tell
        self._last_words: list[work.Report] = []

    def came(self, job: Job) -> None:
        """There is something in this job's outbox. From any thread."""
        self._jobs[job] = None
        if not self._rung:
            self._rung = True
            self._loop.call_soon_threadsafe(self._bell.set)

    def flush_now(self, job: Job) -> None:
        self.last_word(work.Report(job.claim, time.monotonic() - job.started, *(job.news() or (None, None, None))))
        flushed = asyncio.run_coroutine_threadsafe(self._persist({job.id}), self._loop)
        try:
            flushed.result(FLUSH_SECONDS)
        except TimeoutError:
            flushed.cancel()
            raise DatabaseUnreachable(
                f"what job {job.id} told could not be written within {FLUSH_SECONDS:g} seconds: the database is away, "
                "or somebody holds the job's row (in its own transaction a job tells with job.event, not by hand)"
            ) from None

    def last_word(self, report: work.Report) -> None:
        """How far a job was that has ended."""
        self._last_words.append(report)

    async def run(self) -> None:
        failures = 0
        while True:
            await self._bell.wait()
            self._bell.clear()
            await asyncio.sleep(GATHER_SECONDS)
            self._rung = False
            try:
                locked = await self.flush()
            except DatabaseUnavailable as error:
                self._away(error)
                failures += 1
                await asyncio.sleep(reconnect_delay(failures))
                self._bell.set()
            else:
                failures = 0
                if locked:
                    self._loop.call_later(LOCKED_SECONDS, self._bell.set)

    @property
    def has_something(self) -> bool:
        """Whether something is waiting, or being written."""
        return bool(self._jobs or self._last_words or self._turn.locked())

    async def flush(self, only: set[UUID] | None = None) -> set[UUID]:
        """Until everything that was told before this call is written: of all jobs, or of some. Returns those whose rows
        somebody holds: it has to be tried again."""
        locked: set[UUID] = set()
        if not self.has_something:
            return locked
        async with self._turn:
            await self._send_last_words()
        jobs = [job for job in list(self._jobs) if only is None or job.id in only]
        # Up to what is there now, and others may come in between: a job that tells much must not keep them waiting.
        ends = {job: job.outbox.last() for job in jobs}
        while jobs := [job for job in jobs if self._is_left(job) and job.outbox.is_behind(*ends[job])]:
            async with self._turn:
                locked |= await self._send_some(jobs)
            jobs = [job for job in jobs if job.id not in locked]
        self._away(None)
        return locked

    async def _send_some(self, jobs: list[Job]) -> set[UUID]:
        size = max(SIZE // len(jobs), 1)
        events = ((job, job.outbox.waiting_events(EVENTS, size)) for job in jobs)
        locked = await self._send(
            [each for each in events if each[1]],
            lambda told: event_queries.record_events(self._worker_id, told, now()),
            Outbox.events_written,
        )
        logs = ((job, job.outbox.waiting_logs(size)) for job in jobs if job.id not in locked)
        return locked | await self._send(
            [each for each in logs if each[1]],
            lambda logged: log_queries.record_logs(self._worker_id, logged, now(), LOG_HEAD, LOG_TAIL),
            Outbox.logs_written,
        )

    async def _persist(self, only: set[UUID]) -> None:
        failures = 0
        while True:
            try:
                if not await self.flush(only):
                    return
            except DatabaseUnavailable as error:
                self._away(error)
            failures += 1
            await asyncio.sleep(reconnect_delay(failures))

    async def _send_last_words(self) -> None:
        reports = list(self._last_words)
        if not reports:
            return
        try:
            await self._line.run(work.report(self._worker_id, reports))
        except DatabaseUnavailable:
            raise
        except RowLocked:
            log.warning("how far %s jobs were could not be written: somebody holds one of them", len(reports))
        except Exception:
            log.exception("how far %s jobs were could not be written", len(reports))
        del self._last_words[: len(reports)]

    async def _send(
        self,
        batch: list[tuple[Job, list[Sent]]],
        query: Callable[[list[tuple[Claim, list[Sent]]]], Query[set[UUID]]],
        written: Callable[[Outbox, int], None],
    ) -> set[UUID]:
        """Returns the jobs whose rows somebody holds."""
        if not batch:
            return set()
        try:
            held = await self._line.run(query([(job.claim, lines) for job, lines in batch]))
        except DatabaseUnavailable:
            raise
        except Exception as error:
            # Something in it cannot be written. It must not keep the others waiting, nor the job's end.
            if len(batch) > 1:
                locked = [await self._send([each], query, written) for each in batch]
                return set().union(*locked)
            job, lines = batch[0]
            if isinstance(error, RowLocked):
                return {job.id}
            log.exception("what job %s told could not be written and is dropped", job.id)
            written(job.outbox, lines[-1].sequence)
            return set()
        for job, lines in batch:
            if job.id in held:
                written(job.outbox, lines[-1].sequence)
            else:
                job.outbox.refuse()
        return set()

    def _is_left(self, job: Job) -> bool:
        """Whether there is something in its outbox; if not, it is forgotten until there is."""
        # Forgotten first: what comes in meanwhile puts it back.
        self._jobs.pop(job, None)
        if job.outbox:
            self._jobs[job] = None
        return job in self._jobs
